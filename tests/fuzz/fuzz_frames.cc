// FrameChannel: any stream gives frames in order, or an error; never more bytes than came in.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "scripted_transport.h"
#include "transport/frames.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvdlite;  // NOLINT
  fuzz::ScriptedTransport script(data, size, 1);
  transport::FrameChannel channel(&script);
  size_t total = 0;
  // Each call makes progress unless the script is at its end.
  for (size_t calls = 0; calls <= 2 * size + 2; ++calls) {
    std::string_view frame;
    bool moved = false;
    if (!channel.Next(&frame, &moved).ok()) return 0;
    if (frame.data() != nullptr) total += frame.size() + 8;
    if (total > size) std::abort();
  }
  return 0;
}
