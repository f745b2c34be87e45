#include "api/report.h"

#include <utility>

namespace hvdlite::api {

Status& LastError() {
  thread_local Status status;
  return status;
}

hvdlite_code Report(Status status) {
  const hvdlite_code code = static_cast<hvdlite_code>(status.code());
  if (code != HVDLITE_OK) LastError() = std::move(status);
  return code;
}

}  // namespace hvdlite::api
