// Checked: a Transport that carries its bytes over another one in frames with check words: what it
// hands out is what the peer has sent, and what was changed on the way is an error that names the
// connection.
//
//   header   u32 length of the payload (1 to kMostInFrame),
//            u32 sequence (from 0, +1 per frame and direction),
//            u32 CRC-32C of the payload, u32 CRC-32C of the 12 bytes before
//   payload  as the caller gave it
//
// No byte is handed out before its frame is complete and right, so it is never added up or passed
// on; and no number of a header is believed before the header is right, so the receiver never waits
// for bytes that never come. Payload is not copied on its way from and to the caller's memory,
// unless the caller asks for less than a frame.
//
// Thread-safety, blocking: as for any Transport. Failure: that of the other transport, and
// kPeerLost for damage, for good.
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
  void EndSending() override { inner_->EndSending(); }
  std::string Name() const override { return inner_->Name(); }
  Acknowledged acknowledged() const override { return inner_->acknowledged(); }
  int peer() const override { return inner_->peer(); }
  int fd() const override { return inner_->fd(); }

 private:
  void BeginFrame(const void* data, size_t bytes);
  // The next header, if all of it has come: then in_left_ > 0. What comes with it goes to the
  // caller's memory at once, where it nearly always belongs.
  Status ReadHeader(char* to, size_t bytes);
  Status Believe(size_t bytes);
  void PutBack(const char* from, size_t bytes);
  // As much of the frame under way as has come, to where it belongs.
  Status ReadPayload(char* to, bool* moved);
  void Take(char* to, const char* from, size_t bytes);
  Status Damaged(const std::string& what);

  const std::unique_ptr<Transport> inner_;

  // Sending: the frame under way.
  std::array<char, kHeaderBytes> out_header_{};
  size_t out_header_sent_ = kHeaderBytes;
  size_t out_left_ = 0;  // of its payload
  uint32_t out_sequence_ = 0;

  // Receiving: the frame under way.
  size_t in_left_ = 0;      // of its payload, not come yet
  size_t in_come_ = 0;      // come, and not known to be right
  bool in_place_ = false;   // it goes to the caller's memory, else to kept_
  uint32_t in_check_ = 0;   // what the header says
  uint32_t in_so_far_ = 0;  // of what has come
  uint32_t in_sequence_ = 0;
  Status damaged_;

  // What has come behind the frame under way: mostly the next header.
  std::vector<char> ahead_ = std::vector<char>(kHeaderBytes);
  size_t ahead_begin_ = 0;
  size_t ahead_end_ = 0;
  // A frame that the caller did not ask for as a whole; the first kept_right_ bytes from
  // kept_begin_ on are right.
  std::vector<char> kept_;
  size_t kept_begin_ = 0;
  size_t kept_right_ = 0;
};

}  // namespace hvdlite::transport
