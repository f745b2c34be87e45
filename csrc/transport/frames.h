// FrameChannel: whole messages over a Transport. A frame is u32 length, u32 sequence number, payload; a frame out of
// sequence or longer than kMaxFrame means that the stream is broken, and the channel fails.
//
// Never blocks: Send queues, Pump moves what fits. Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "transport/transport.h"

namespace hvdlite::transport {

class FrameChannel {
 public:
  static constexpr uint32_t kMaxFrame = 256u << 20;

  explicit FrameChannel(Transport* transport) : transport_(transport) {}

  void Send(std::string_view payload);
  // Sends and receives what is possible now. Calls `deliver` for each complete frame, in order. *moved is set to true
  // if any byte moved, and left alone otherwise.
  Status Pump(const std::function<Status(std::string_view)>& deliver, bool* moved);

  Transport& transport() const { return *transport_; }
  bool wants_to_send() const { return sent_ < out_.size(); }

 private:
  Status PumpOut(bool* moved);

  Transport* const transport_;
  std::string out_;
  size_t sent_ = 0;
  uint32_t next_out_ = 0;
  std::string in_;
  size_t parsed_ = 0;
  uint32_t next_in_ = 0;
};

}  // namespace hvdlite::transport
