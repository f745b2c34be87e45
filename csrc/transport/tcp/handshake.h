// The handshake of docs/how-it-works/wire.md: both sides prove that they know the job's secret
// before anything is parsed.
//
// Both sides are state machines that never block. So one thread can serve many connections, and a
// peer that is slow or sends garbage delays no other. Call Advance() when poll(2) reports wants(),
// and again at the deadline. A side reads exactly its part of the handshake: later bytes stay in
// the socket. Memory per connection is the size of the object, whatever the peer sends.
// Thread-safety: one thread at a time. Does not own the descriptor; its owner closes it on kFailed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/sha256.h"
#include "base/status.h"

namespace hvdlite::transport::tcp {

// The job's secret: random, fresh for each job, never in argv or a log.
using Secret = std::array<uint8_t, 32>;
// Reads 64 hexadecimal digits. The error never repeats the text.
Status ParseSecret(std::string_view hex, Secret* secret);

// The secret of one generation of an elastic job. `nonce`: of its assignment.
Secret SecretOfGeneration(const Secret& job, uint32_t generation, std::string_view nonce);

// What the connection is for. It travels on the wire, and a proof for one purpose is worthless for
// the other.
enum class Purpose : uint8_t { kStore = 0, kLink = 1 };

// How long a server waits for an unauthenticated connection: long enough for a loaded machine and a
// slow network.
constexpr Nanos kHandshakeSpan = 5 * kSecond;

class Handshake {
 public:
  enum class Progress : uint8_t { kPending, kDone, kFailed };

  virtual ~Handshake() = default;
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // Moves what fits now. kDone and kFailed are final.
  Progress Advance(int fd);
  // The event to poll for while kPending: POLLIN or POLLOUT.
  short wants() const;
  Deadline deadline() const { return deadline_; }
  // OK unless kFailed. Names the other side by the constructor's `who`.
  const Status& status() const { return status_; }

 protected:
  using Nonce = std::array<uint8_t, 32>;
  using GenerationBytes = std::array<uint8_t, 4>;
  static constexpr size_t kHelloBytes = 8 + 1 + 32;    // step 1 on the wire
  static constexpr size_t kAnswerBytes = 8 + 32 + 32;  // step 2
  static constexpr size_t kProofBytes = 32;            // step 3
  static constexpr size_t kMostBytes = kAnswerBytes + sizeof(GenerationBytes);

  Handshake(const Secret& secret, Purpose purpose, Deadline deadline, std::string who,
            uint32_t generation)
      : secret_(secret),
        purpose_(purpose),
        deadline_(deadline),
        who_(std::move(who)),
        generation_(generation) {}

  // Called at the start (turn 0), and whenever all of the last turn is sent and received. It checks
  // in_, then calls Send and Expect for the next exchange. A turn that calls neither is the last.
  // A turn that fails may have called Send, to tell the other side why.
  virtual Status Turn(int turn) = 0;
  // Looks at the bytes of in_ that either side reads first: the magic, and what follows it. A
  // browser or a port scanner is disconnected at its first wrong byte.
  virtual Status CheckBegin(size_t received) const;
  void Send(const void* data, size_t bytes);
  void Expect(size_t bytes) { in_bytes_ = bytes; }
  // On links the generation follows the nonce in steps 1 and 2. The store serves all generations.
  size_t generation_bytes() const {
    return purpose_ == Purpose::kLink ? sizeof(GenerationBytes) : 0;
  }
  void SendGeneration();
  // `at`: where in_ has the other side's generation.
  Status CheckGeneration(size_t at) const;
  Digest Proof(std::string_view label, const Nonce& client, const Nonce& server) const;

  const Secret secret_;
  const Purpose purpose_;
  const Deadline deadline_;
  const std::string who_;
  const uint32_t generation_;
  std::array<uint8_t, kMostBytes> in_{};

 private:
  Status Move(int fd);

  Progress progress_ = Progress::kPending;
  Status status_;
  int turn_ = 0;
  std::array<uint8_t, kMostBytes> out_{};
  size_t out_bytes_ = 0;
  size_t sent_ = 0;
  size_t in_bytes_ = 0;
  size_t received_ = 0;
};

class ServerHandshake final : public Handshake {
 public:
  // Accepts connections for `purpose` only, and for links only those of this generation (0: of a
  // job that is not elastic). `deadline` is shortened to kHandshakeSpan from now.
  ServerHandshake(const Secret& secret, Purpose purpose, Deadline deadline, std::string who,
                  uint32_t generation = 0);

 private:
  Status Turn(int turn) override;
  Status CheckBegin(size_t received) const override;
  Nonce client_nonce_{};
  Nonce server_nonce_{};
};

class ClientHandshake final : public Handshake {
 public:
  // The deadline is not shortened, because a server that is still starting up answers late.
  ClientHandshake(const Secret& secret, Purpose purpose, Deadline deadline, std::string who,
                  uint32_t generation = 0);

 private:
  Status Turn(int turn) override;
  Nonce client_nonce_{};
};

// Advances a handshake until it is done, failed or past its deadline. For callers with a single
// connection.
Status WaitHandshake(int fd, Handshake* handshake);

}  // namespace hvdlite::transport::tcp
