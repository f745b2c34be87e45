// The calling thread's last error: what the functions of hvdlite.h leave behind when they fail.
#pragma once

#include "api/hvdlite.h"
#include "base/status.h"

namespace hvdlite::api {

Status& LastError();
// Remembers the status if it is not OK.
hvdlite_code Report(Status status);

}  // namespace hvdlite::api
