#include "rendezvous/tcp_store.h"

#include <poll.h>

#include <algorithm>

#include "rendezvous/bytes.h"

namespace hvdlite::rendezvous {
namespace {

namespace tcp = transport::tcp;

constexpr uint64_t kMaxPayload = 64ull << 20;
constexpr size_t kHeaderBytes = 4 + 8;
constexpr uint32_t kWaitForever = 0xffffffff;
// How long the server may take for what needs no waiting, and for the reply on top of a wait that it was
// asked for. Generous: a launcher on a loaded login node, 64 MiB over a slow network.
constexpr Nanos kPatience = 60 * kSecond;
// Between attempts to connect: short enough that nobody notices, long enough for thousands of ranks.
constexpr Nanos kFirstPause = 20 * kMillisecond;
constexpr Nanos kLongestPause = kSecond;

enum class ReplyStatus : uint8_t { kOk = 0, kTimeout = 1, kBadRequest = 2 };

uint32_t WaitMillis(Deadline deadline) {
  if (deadline.never()) return kWaitForever;
  const Nanos millis = (deadline.Left() + kMillisecond - 1) / kMillisecond;
  return static_cast<uint32_t>(std::min<Nanos>(millis, kWaitForever - 1));
}

void Pause(Nanos span) {
  poll(nullptr, 0, static_cast<int>(span / kMillisecond));
}

}  // namespace

Status TcpStore::Connect(const tcp::Endpoint& server, const tcp::Secret& secret, Deadline deadline,
                         std::unique_ptr<TcpStore>* store) {
  const std::string who = "the job's store at " + server.ToString();
  const char* check =
      " (is the launcher, or rank 0, still running; is this address reachable from here; does a firewall "
      "block "
      "the port?)";
  Nanos pause = kFirstPause;
  Fd fd;
  while (true) {
    const Status status = tcp::Connect(server, deadline, &fd);
    if (status.ok()) break;
    if (status.code() == StatusCode::kInvalidArgument || deadline.Left() <= pause) {
      return Status(status.code(), "cannot reach " + who + ": " + status.message() + check);
    }
    Pause(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  tcp::ClientHandshake handshake(secret, tcp::Purpose::kStore, deadline, who);
  HVDLITE_RETURN_IF_ERROR(tcp::WaitHandshake(fd.get(), &handshake));
  store->reset(new TcpStore(std::move(fd), who));
  return Status::Ok();
}

Status TcpStore::Set(const std::string& key, const std::string& value) {
  return Ask(Operation::kSet, key, value, Deadline::After(0), nullptr);
}

Status TcpStore::Get(const std::string& key, Deadline deadline, std::string* value) {
  return Ask(Operation::kGet, key, "", deadline, value);
}

Status TcpStore::Collect(const std::string& key, int n, Deadline deadline, std::vector<std::string>* values) {
  values->clear();
  if (n < 0 || static_cast<size_t>(n) > kMaxCollect) {
    return Status::InvalidArgument("cannot collect " + std::to_string(n) + " keys");
  }
  std::string count;
  AppendInteger(&count, static_cast<uint32_t>(n));
  std::string reply;
  HVDLITE_RETURN_IF_ERROR(Ask(Operation::kCollect, key, count, deadline, &reply));
  ByteReader reader(reply);
  for (int i = 0; i < n; ++i) {
    uint64_t bytes = 0;
    std::string value;
    if (!reader.TakeInteger(&bytes) || !reader.TakeBytes(bytes, &value)) {
      values->clear();
      return Status::Io("the reply of " + who_ + " to 'collect' is too short");
    }
    values->push_back(std::move(value));
  }
  if (!reader.rest().empty()) {
    values->clear();
    return Status::Io("the reply of " + who_ + " to 'collect' is too long");
  }
  return Status::Ok();
}

Status TcpStore::Add(const std::string& key, int64_t amount, int64_t* sum) {
  std::string bytes;
  AppendInteger(&bytes, amount);
  std::string reply;
  HVDLITE_RETURN_IF_ERROR(Ask(Operation::kAdd, key, bytes, Deadline::After(0), &reply));
  if (!ByteReader(reply).TakeInteger(sum))
    return Status::Io("the reply of " + who_ + " to 'add' is too short");
  return Status::Ok();
}

Status TcpStore::Delete(const std::string& key) {
  return Ask(Operation::kDelete, key, "", Deadline::After(0), nullptr);
}

Status TcpStore::Ask(Operation operation, const std::string& key, const std::string& value, Deadline wait,
                     std::string* reply) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return Status::InvalidArgument("a key of the store has 1 to 4096 bytes, not " +
                                   std::to_string(key.size()));
  }
  const size_t bytes = 1 + 4 + key.size() + 4 + value.size();
  if (bytes > kMaxPayload) {
    return Status::InvalidArgument("the value of '" + key + "' has " + std::to_string(value.size()) +
                                   " bytes; the store takes at most 64 MiB with the key");
  }
  const bool waits = operation == Operation::kGet || operation == Operation::kCollect;
  const Deadline turn = waits ? wait : Deadline::After(kPatience);
  {
    MutexLock lock(mutex_);
    while (busy_) {
      if (turn.Passed()) {
        return Status::Timeout("another thread was still waiting for " + who_ + "; '" + key +
                               "' was not asked for");
      }
      idle_.WaitFor(mutex_, turn.Left(kSecond));
    }
    busy_ = true;
  }
  // The argument is computed after the turn came: the server must not wait longer than the caller.
  std::string request;
  request.reserve(kHeaderBytes + bytes);
  AppendInteger(&request, sequence_);
  AppendInteger(&request, static_cast<uint64_t>(bytes));
  AppendInteger(&request, static_cast<uint8_t>(operation));
  AppendInteger(&request, static_cast<uint32_t>(key.size()));
  request += key;
  AppendInteger(&request, waits ? WaitMillis(wait) : uint32_t{0});
  request += value;

  const Deadline answer =
      waits && wait.never() ? wait : Deadline::After((waits ? wait.Left() : 0) + kPatience);
  std::string payload;
  if (broken_.ok()) {
    const Status exchanged = Exchange(request, answer, &payload);
    if (!exchanged.ok()) {
      broken_ = Status(exchanged.code(), "lost the job's store while asking for '" + key +
                                             "': " + exchanged.message() +
                                             " (has the launcher, or rank 0, which serves it, ended?)");
    }
  }
  ++sequence_;
  const Status status = broken_;
  {
    MutexLock lock(mutex_);
    busy_ = false;
    idle_.NotifyOne();
  }
  HVDLITE_RETURN_IF_ERROR(status);

  const auto code = static_cast<ReplyStatus>(payload[0]);
  payload.erase(0, 1);
  if (code == ReplyStatus::kTimeout) return Status::Timeout(payload + " (asked of " + who_ + ")");
  if (code == ReplyStatus::kBadRequest) return Status::InvalidArgument(who_ + " refused: " + payload);
  if (reply != nullptr) *reply = std::move(payload);
  return Status::Ok();
}

Status TcpStore::Exchange(const std::string& request, Deadline deadline, std::string* reply) {
  HVDLITE_RETURN_IF_ERROR(tcp::WriteFull(fd_.get(), request.data(), request.size(), deadline, who_));
  char header[kHeaderBytes];
  HVDLITE_RETURN_IF_ERROR(tcp::ReadFull(fd_.get(), header, sizeof(header), deadline, who_));
  const auto sequence = LoadInteger<uint32_t>(header);
  const auto bytes = LoadInteger<uint64_t>(header + 4);
  if (sequence != sequence_) {
    return Status::Io(who_ + " answered out of turn (frame " + std::to_string(sequence) + " instead of " +
                      std::to_string(sequence_) + "): somebody may tamper with the connection");
  }
  if (bytes < 1 || bytes > kMaxPayload) {
    return Status::Io(who_ + " announced a reply of " + std::to_string(bytes) +
                      " bytes; 1 to 64 MiB are possible");
  }
  reply->resize(bytes);
  HVDLITE_RETURN_IF_ERROR(tcp::ReadFull(fd_.get(), reply->data(), reply->size(), deadline, who_));
  if (static_cast<uint8_t>((*reply)[0]) > static_cast<uint8_t>(ReplyStatus::kBadRequest)) {
    return Status::Io(who_ + " answered with an unknown status");
  }
  return Status::Ok();
}

}  // namespace hvdlite::rendezvous
