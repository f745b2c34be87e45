// Any bytes decode to a refusal, or to a message that survives being encoded and decoded again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/message.h"

using namespace hvdlite;          // NOLINT: a fuzz target is one function
using namespace hvdlite::engine;  // NOLINT

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Reader in(bytes);
  Writer out;
  switch (data[0] % 3) {
    case 0: {
      Request request, again;
      if (!Request::Decode(&in, &request)) return 0;
      request.Encode(&out);
      Reader second(out.bytes());
      // NaN scale factors differ from themselves; all else must come back.
      const bool numbers =
          request.prescale == request.prescale && request.postscale == request.postscale;
      if (!Request::Decode(&second, &again)) std::abort();
      if (numbers && (!request.SameExceptName(again) || request.name != again.name)) std::abort();
      if (Shown(request).empty()) std::abort();
      return 0;
    }
    case 1: {
      Response response, again;
      if (!Decode(&in, &response)) return 0;
      Encode(response, &out);
      Reader second(out.bytes());
      if (!Decode(&second, &again) || again.slot != response.slot) std::abort();
      if (again.cached != response.cached ||
          (!again.cached && again.agreed->rows != response.agreed->rows))
        std::abort();
      return 0;
    }
    default: {
      Status status, again;
      if (!Decode(&in, &status)) return 0;
      Encode(status, &out);
      Reader second(out.bytes());
      if (!Decode(&second, &again) || again.ToString() != status.ToString()) std::abort();
      return 0;
    }
  }
}
