// Checked: a Transport that carries its bytes over another one, in frames with check words. It
// returns only bytes that the peer has sent. A change on the way is an error that names the
// connection.
//
//   header   u32 length of the payload (1 to kMostInFrame),
//            u32 sequence (from 0, +1 per frame and direction),
//            u32 CRC-32C of the payload, u32 CRC-32C of the 12 bytes before
//   payload  as the caller gave it
//
// No byte is returned before its frame is complete and correct, so a damaged byte is never added up
// or passed on. No number of a header is used before the header is known to be correct, so the
// receiver never waits for bytes that never come. Payload moves between the caller's memory and the
// other transport without a copy, unless the caller asks for less than a frame.
//
// Thread-safety, blocking: as for any Transport. Failure: that of the other transport, and
// kPeerLost for damage; later calls fail, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace hvdlite::transport {

class Checked final : public Transport {
 public:
  static constexpr size_t kHeaderBytes = 16;
  static constexpr size_t kMostInFrame = 128 << 10;

  explicit Checked(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  Status TrySend(const void* data, size_t bytes, size_t* moved) override;
  Status TryReceive(void* data, size_t bytes, size_t* moved) override;
  // In one frame if the first part is short. A peer that wants one part after the other gets them
  // in two: else it could not receive the second where it belongs.
  Status TrySendAsOne(const iovec (&parts)[2], size_t* moved) override;
  // No part of a frame is returned, so nothing is gained by waking before all of it is there.
  void WakeAt(size_t bytes) override { inner_->WakeAt(bytes > 1 && in_left_ > 0 ? in_left_ : 1); }
  void EndSending() override { inner_->EndSending(); }
  std::string Name() const override { return inner_->Name(); }
  Acknowledged acknowledged() const override { return inner_->acknowledged(); }
  bool ended() const override { return inner_->ended(); }
  bool holds_bytes() const override {
    return kept_right_ > 0 || ahead_end_ - ahead_begin_ >= kHeaderBytes;
  }
  int peer() const override { return inner_->peer(); }
  int fd() const override { return inner_->fd(); }

 private:
  // Of a frame whose payload is `bytes` and has this check word.
  void BeginFrame(size_t bytes, uint32_t check);
  // Reads the next header; once all of it has arrived, in_left_ > 0. Bytes behind it go to the
  // caller's memory at once, where they nearly always belong.
  Status ReadHeader(char* to, size_t bytes);
  Status Believe(size_t bytes);
  void PutBack(const char* from, size_t bytes);
  // Moves what has arrived of the current frame to where it belongs.
  Status ReadPayload(char* to, bool* moved);
  void Take(char* to, const char* from, size_t bytes);
  Status Damaged(const std::string& what);

  const std::unique_ptr<Transport> inner_;

  // Sending: the current frame.
  std::array<char, kHeaderBytes> out_header_{};
  size_t out_header_sent_ = kHeaderBytes;
  size_t out_left_ = 0;  // of the payload
  uint32_t out_sequence_ = 0;

  // Receiving: the current frame.
  size_t in_left_ = 0;      // of the payload, not yet received
  size_t in_come_ = 0;      // received, not yet verified
  bool in_place_ = false;   // the payload goes to the caller's memory, else to kept_
  uint32_t in_check_ = 0;   // the header's check word of the payload
  uint32_t in_so_far_ = 0;  // the check word of the bytes received
  uint32_t in_sequence_ = 0;
  Status damaged_;

  // Bytes received behind the current frame: mostly the next header.
  std::vector<char> ahead_ = std::vector<char>(kHeaderBytes);
  size_t ahead_begin_ = 0;
  size_t ahead_end_ = 0;
  // A frame that the caller did not request as a whole. The kept_right_ bytes from kept_begin_ on
  // are verified.
  std::vector<char> kept_;
  size_t kept_begin_ = 0;
  size_t kept_right_ = 0;
};

}  // namespace hvdlite::transport
