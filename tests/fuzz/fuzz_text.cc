// What is read from variables, from the store and from the first bytes of a link: any bytes give a
// refusal, or something that says the same when it is written out and read again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/thread.h"
#include "rendezvous/interfaces.h"
#include "transport/tcp/link_hello.h"
#include "transport/tcp/socket.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvdlite;                  // NOLINT: a fuzz target is one function
  using namespace hvdlite::transport::tcp;  // NOLINT
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0: {
      Endpoint endpoint, again;
      if (!ParseEndpoint(text, &endpoint).ok()) return 0;
      if (!ParseEndpoint(endpoint.ToString(), &again).ok() || !(again == endpoint)) std::abort();
      return 0;
    }
    case 1: {
      for (const std::string& name : rendezvous::ParseInterfaceNames(text)) {
        if (name.empty() || name.size() > text.size() || name.find(',') != std::string::npos)
          std::abort();
      }
      return 0;
    }
    case 2: {
      int core = 0;
      const bool ok = CoreOf(text, 1, 3, &core).ok();
      if (core < -1 || (!ok && core != -1)) std::abort();
      return 0;
    }
    case 3: {
      Config config;
      for (const char* field :
           {"fusion_threshold", "cycle_time", "log_hide_time", "host_id", "no such field"}) {
        (void)config.Set(field, text);
      }
      (void)config.Set(text, "1");
      return 0;
    }
    default: {
      std::array<uint8_t, kLinkHelloBytes> bytes{};
      std::copy_n(text.data(), std::min(text.size(), bytes.size()), bytes.data());
      LinkHello hello;
      if (Decode(bytes, &hello) && Encode(hello) != bytes) std::abort();
      return 0;
    }
  }
}
