// FrameChannel: whole messages over a Transport. A frame is u32 length, u32 sequence number,
// payload. The channel fails on a frame that is out of sequence or longer than kMaxFrame, because
// the stream is then broken.
//
// Never blocks: Send queues; PumpOut and Next move what fits. Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/transport.h"

namespace hvdlite::transport {

class FrameChannel {
 public:
  static constexpr uint32_t kMaxFrame = 256u << 20;

  explicit FrameChannel(Transport* transport) : transport_(transport) {}

  void Send(std::string_view payload);
  // Sends a payload in two parts, at once if nothing is queued: then the second is not copied.
  Status SendNow(std::string_view head, std::string_view body);
  // Sends as many queued bytes as the transport takes. Sets *moved to true if it sent any, and
  // leaves it alone otherwise.
  Status PumpOut(bool* moved);
  // Gives the next complete frame, or a view with data() == nullptr if there is none now. The view
  // is valid until the next call.
  Status Next(std::string_view* frame, bool* moved);

  Transport& transport() const { return *transport_; }
  bool wants_to_send() const { return sent_ < out_.size(); }

 private:
  Transport* const transport_;
  std::string out_;
  size_t sent_ = 0;
  uint32_t next_out_ = 0;
  std::vector<char> in_;  // [begin_, end_) is received and not yet returned
  size_t begin_ = 0;
  size_t end_ = 0;
  uint32_t next_in_ = 0;
};

}  // namespace hvdlite::transport
