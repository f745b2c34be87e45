#include "transport/tcp/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/tcp/socket.h"

namespace hvdlite::transport::tcp {
namespace {

constexpr std::string_view kMagic = "hvdlite1";
constexpr std::string_view kServerLabel = "hvdlite server";
constexpr std::string_view kClientLabel = "hvdlite client";
constexpr std::string_view kGenerationLabel = "hvdlite generation ";

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Status ParseSecret(std::string_view hex, Secret* secret) {
  bool good = hex.size() == 2 * secret->size();
  for (size_t i = 0; good && i < secret->size(); ++i) {
    const int high = HexDigit(hex[2 * i]);
    const int low = HexDigit(hex[2 * i + 1]);
    good = high >= 0 && low >= 0;
    if (good) (*secret)[i] = static_cast<uint8_t>(high * 16 + low);
  }
  if (good) return Status::Ok();
  return Status::InvalidArgument(
      "the job's secret has to be 64 hexadecimal digits, but this is something else (" +
      std::to_string(hex.size()) + " characters)");
}

Secret SecretOfGeneration(const Secret& job, uint32_t generation, std::string_view nonce) {
  std::string message(kGenerationLabel);
  message.append(std::to_string(generation)).append(" ").append(nonce);
  return HmacSha256({reinterpret_cast<const char*>(job.data()), job.size()}, message);
}

void Handshake::Send(const void* data, size_t bytes) {
  std::memcpy(out_.data() + out_bytes_, data, bytes);
  out_bytes_ += bytes;
}

void Handshake::SendGeneration() {
  GenerationBytes bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(generation_ >> (8 * i));
  Send(bytes.data(), generation_bytes());
}

Status Handshake::CheckGeneration(size_t at) const {
  if (generation_bytes() == 0) return Status::Ok();
  uint32_t theirs = 0;
  for (size_t i = 0; i < sizeof(GenerationBytes); ++i)
    theirs |= static_cast<uint32_t>(in_[at + i]) << (8 * i);
  if (theirs == generation_) return Status::Ok();
  return Status::Io(who_ + " is in generation " + std::to_string(theirs) +
                    " of its job, but this rank is in generation " + std::to_string(generation_) +
                    ": the earlier one is a process that has been left behind");
}

Status Handshake::CheckBegin(size_t received) const {
  if (std::memcmp(in_.data(), kMagic.data(), std::min(received, kMagic.size())) == 0)
    return Status::Ok();
  return Status::Io(who_ + " does not speak hvdlite's protocol, version 1");
}

Digest Handshake::Proof(std::string_view label, const Nonce& client, const Nonce& server) const {
  std::string message(label);
  message.push_back(static_cast<char>(purpose_));
  message.append(client.begin(), client.end());
  message.append(server.begin(), server.end());
  return HmacSha256({reinterpret_cast<const char*>(secret_.data()), secret_.size()}, message);
}

short Handshake::wants() const {
  return sent_ < out_bytes_ ? POLLOUT : POLLIN;
}

Handshake::Progress Handshake::Advance(int fd) {
  if (progress_ != Progress::kPending) return progress_;
  status_ = Move(fd);
  if (!status_.ok()) progress_ = Progress::kFailed;
  return progress_;
}

// Bounded: there are three turns, each of at most 76 bytes in each direction.
Status Handshake::Move(int fd) {
  while (true) {
    while (sent_ < out_bytes_) {
      const ssize_t n =
          send(fd, out_.data() + sent_, out_bytes_ - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        return Status::FromErrno("cannot send the handshake to " + who_, errno);
      }
      if (n < 0) break;
      sent_ += static_cast<size_t>(n);
    }
    while (sent_ == out_bytes_ && received_ < in_bytes_) {
      const ssize_t n = recv(fd, in_.data() + received_, in_bytes_ - received_, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n == 0 || (n < 0 && errno == ECONNRESET)) {
        return Status::Io(who_ +
                          " closed the connection during the handshake: it may belong to another "
                          "job (with another "
                          "secret) or not be hvdlite at all");
      }
      if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        return Status::FromErrno("cannot read the handshake of " + who_, errno);
      }
      if (n < 0) break;
      received_ += static_cast<size_t>(n);
      if (turn_ == 1) HVDLITE_RETURN_IF_ERROR(CheckBegin(received_));
    }
    if (sent_ < out_bytes_ || received_ < in_bytes_) {
      if (!deadline_.Passed()) return Status::Ok();
      return Status::Timeout(who_ + " did not finish the handshake in time: it stopped at byte " +
                             std::to_string(received_) + " of " + std::to_string(in_bytes_) +
                             " of step " + std::to_string(turn_));
    }
    out_bytes_ = sent_ = in_bytes_ = received_ = 0;
    const Status turned = Turn(turn_++);
    if (!turned.ok() && out_bytes_ > 0) {
      [[maybe_unused]] const ssize_t n =
          send(fd, out_.data(), out_bytes_, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    HVDLITE_RETURN_IF_ERROR(turned);
    if (out_bytes_ == 0 && in_bytes_ == 0) {
      progress_ = Progress::kDone;
      return Status::Ok();
    }
  }
}

ServerHandshake::ServerHandshake(const Secret& secret, Purpose purpose, Deadline deadline,
                                 std::string who, uint32_t generation)
    : Handshake(secret, purpose, Deadline::After(deadline.Left(kHandshakeSpan)), std::move(who),
                generation) {}

Status ServerHandshake::CheckBegin(size_t received) const {
  HVDLITE_RETURN_IF_ERROR(Handshake::CheckBegin(received));
  const uint8_t purpose = in_[kMagic.size()];
  if (received <= kMagic.size() || purpose == static_cast<uint8_t>(purpose_)) return Status::Ok();
  return Status::Io(who_ + " wants a connection for purpose " + std::to_string(purpose) +
                    ", this port serves purpose " + std::to_string(static_cast<int>(purpose_)) +
                    " (0: store, 1: link)");
}

Status ServerHandshake::Turn(int turn) {
  if (turn == 0) {
    Expect(kHelloBytes + generation_bytes());
    return Status::Ok();
  }
  if (turn == 1) {
    std::copy_n(in_.data() + kMagic.size() + 1, client_nonce_.size(), client_nonce_.data());
    HVDLITE_RETURN_IF_ERROR(RandomBytes(server_nonce_.data(), server_nonce_.size()));
    Send(kMagic.data(), kMagic.size());
    Send(server_nonce_.data(), server_nonce_.size());
    SendGeneration();
    const Digest proof = Proof(kServerLabel, client_nonce_, server_nonce_);
    Send(proof.data(), proof.size());
    Expect(kProofBytes);
    return CheckGeneration(kHelloBytes);
  }
  if (turn == 2) {
    const Digest proof = Proof(kClientLabel, client_nonce_, server_nonce_);
    if (EqualInConstantTime(proof.data(), in_.data(), proof.size())) return Status::Ok();
    return Status::Io(who_ + " does not know this job's secret");
  }
  return Status::Internal("the server's handshake has only three turns");
}

ClientHandshake::ClientHandshake(const Secret& secret, Purpose purpose, Deadline deadline,
                                 std::string who, uint32_t generation)
    : Handshake(secret, purpose, deadline, std::move(who), generation) {}

Status ClientHandshake::Turn(int turn) {
  if (turn == 0) {
    HVDLITE_RETURN_IF_ERROR(RandomBytes(client_nonce_.data(), client_nonce_.size()));
    const auto purpose = static_cast<uint8_t>(purpose_);
    Send(kMagic.data(), kMagic.size());
    Send(&purpose, 1);
    Send(client_nonce_.data(), client_nonce_.size());
    SendGeneration();
    Expect(kAnswerBytes + generation_bytes());
    return Status::Ok();
  }
  if (turn == 1) {
    Nonce server_nonce;
    const size_t behind_nonce = kMagic.size() + server_nonce.size();
    std::copy_n(in_.data() + kMagic.size(), server_nonce.size(), server_nonce.data());
    HVDLITE_RETURN_IF_ERROR(CheckGeneration(behind_nonce));
    const Digest theirs = Proof(kServerLabel, client_nonce_, server_nonce);
    if (!EqualInConstantTime(theirs.data(), in_.data() + behind_nonce + generation_bytes(),
                             theirs.size())) {
      return Status::Io(who_ +
                        " does not know this job's secret: another job may be listening there");
    }
    const Digest mine = Proof(kClientLabel, client_nonce_, server_nonce);
    Send(mine.data(), mine.size());
    return Status::Ok();
  }
  return Status::Ok();
}

Status WaitHandshake(int fd, Handshake* handshake) {
  Handshake::Progress progress;
  while ((progress = handshake->Advance(fd)) == Handshake::Progress::kPending) {
    bool ready = false;  // at the deadline Advance() itself fails, and says where the peer stopped
    HVDLITE_RETURN_IF_ERROR(WaitFor(fd, handshake->wants(), handshake->deadline(), &ready));
  }
  return handshake->status();
}

}  // namespace hvdlite::transport::tcp
