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
// How long a rank whose init() has failed tries to report why. A hanging server must not hold up
// its caller.
constexpr Nanos kFarewell = kSecond;
constexpr size_t kMaxVerdict = 4096;  // what the server takes
// The pauses between attempts to connect: too short to notice, long enough for thousands of ranks.
constexpr Nanos kFirstPause = 20 * kMillisecond;
constexpr Nanos kLongestPause = kSecond;

enum class ReplyStatus : uint8_t { kOk = 0, kTimeout = 1, kBadRequest = 2, kLost = 3 };

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
      " (is the launcher, or rank 0, still running; is this address reachable from here; does a "
      "firewall "
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
  return Ask({Operation::kSet, key, value}, nullptr);
}

Status TcpStore::Get(const std::string& key, Deadline deadline, std::string* value) {
  return Ask({Operation::kGet, key, "", deadline}, value);
}

Status TcpStore::Collect(const std::string& key, int n, Deadline deadline,
                         std::vector<std::string>* values) {
  values->clear();
  if (n < 0 || static_cast<size_t>(n) > kMaxCollect) {
    return Status::InvalidArgument("cannot collect " + std::to_string(n) + " keys");
  }
  std::string count;
  AppendInteger(&count, static_cast<uint32_t>(n));
  std::string reply;
  HVDLITE_RETURN_IF_ERROR(Ask({Operation::kCollect, key, count, deadline}, &reply));
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
  HVDLITE_RETURN_IF_ERROR(Ask({Operation::kAdd, key, bytes}, &reply));
  if (!ByteReader(reply).TakeInteger(sum))
    return Status::Io("the reply of " + who_ + " to 'add' is too short");
  return Status::Ok();
}

Status TcpStore::Delete(const std::string& key) {
  return Ask({Operation::kDelete, key}, nullptr);
}

Status TcpStore::Join(const std::string& name, int rank, int size, std::string* prefix) {
  std::string count;
  AppendInteger(&count, static_cast<uint32_t>(size));
  Question question{Operation::kJoin, name, count};
  question.argument = static_cast<uint32_t>(rank);
  std::string reply;
  HVDLITE_RETURN_IF_ERROR(Ask(question, &reply));
  ByteReader reader(reply);
  uint32_t attempt = 0;
  int32_t served_by = -1;
  if (!reader.TakeInteger(&attempt) || !reader.TakeInteger(&served_by)) {
    return Status::Io("the reply of " + who_ + " to 'join' is too short");
  }
  *prefix = name + "/" + std::to_string(attempt) + "/";
  name_ = name;
  rank_ = rank;
  served_by_ = served_by == rank ? -1 : served_by;
  return Status::Ok();
}

Status TcpStore::Look() {
  if (name_.empty()) return Status::Ok();
  {
    MutexLock lock(mutex_);
    if (busy_) return Status::Ok();  // the asking thread gets the news
    busy_ = true;
  }
  bool news = false;
  if (broken_.ok()) broken_ = tcp::WaitFor(fd_.get(), POLLIN, Deadline::After(0), &news);
  if (news) {
    std::string reply;
    const Status read = ReadReply(Deadline::After(kPatience), &reply);
    if (!read.ok()) {
      broken_ = Broken(read, "waiting for the other ranks");
    } else if (static_cast<ReplyStatus>(reply[0]) == ReplyStatus::kLost) {
      broken_ = verdict_ = Verdict(reply.substr(1));
    } else {
      broken_ = Status::Io(who_ + " sent a reply that was not requested");
    }
  }
  const Status status = broken_;
  MutexLock lock(mutex_);
  busy_ = false;
  idle_.NotifyOne();
  return status;
}

Status TcpStore::Arrive(Deadline deadline) {
  if (name_.empty()) return Status::Ok();
  const Status arrived = Ask({Operation::kArrive, name_, "", deadline}, nullptr);
  if (arrived.code() != StatusCode::kTimeout) return arrived;
  return Status::Timeout(
      "some ranks did not finish hvd.init() in time; HVDLITE_START_TIMEOUT sets the limit: " +
      arrived.message());
}

Status TcpStore::Fail(const Status& why) {
  if (name_.empty()) return why;
  const bool names_itself =
      why.code() == StatusCode::kPeerLost || why.code() == StatusCode::kTimeout;
  const Status verdict = names_itself
                             ? why
                             : Status::PeerLost(Cause::kFailed, {rank_},
                                                "rank " + std::to_string(rank_) +
                                                    " could not join the job: " + why.message());
  std::string bytes;
  AppendInteger(&bytes, static_cast<int32_t>(verdict.peer()));
  AppendInteger(&bytes, static_cast<uint8_t>(verdict.code()));
  AppendInteger(&bytes, static_cast<uint8_t>(verdict.cause()));
  const size_t others = verdict.ranks().empty() ? 0 : verdict.ranks().size() - 1;
  AppendInteger(&bytes, static_cast<uint8_t>(others));
  for (size_t i = 1; i <= others; ++i)
    AppendInteger(&bytes, static_cast<int32_t>(verdict.ranks()[i]));
  bytes += verdict.message().substr(0, kMaxVerdict - bytes.size());
  Question question{Operation::kFail, name_, bytes};
  question.patience = kFarewell;
  const Status told = Ask(question, nullptr);
  name_.clear();
  // A failure to report `why` matters less than `why`.
  return told.ok() || verdict_.ok() ? why : verdict_;
}

Status TcpStore::Verdict(const std::string& bytes) const {
  ByteReader reader(bytes);
  int32_t rank = -1;
  uint8_t code = 0, cause = 0, others = 0;
  bool whole = reader.TakeInteger(&rank) && reader.TakeInteger(&code) &&
               reader.TakeInteger(&cause) && cause < kCauseCount && reader.TakeInteger(&others);
  std::vector<int> ranks;
  if (rank >= 0) ranks.push_back(rank);
  for (; whole && others > 0; --others) {
    whole = reader.TakeInteger(&rank);
    ranks.push_back(rank);
  }
  if (!whole || reader.rest().empty())
    return Status::Io(who_ + " ended the rendezvous without a reason");
  const bool timeout = code == static_cast<uint8_t>(StatusCode::kTimeout);
  return Status(timeout ? StatusCode::kTimeout : StatusCode::kPeerLost, std::string(reader.rest()),
                static_cast<Cause>(cause), std::move(ranks));
}

Status TcpStore::Broken(const Status& why, const std::string& doing) const {
  if (why.code() == StatusCode::kIo && served_by_ >= 0) {
    const std::string rank = "rank " + std::to_string(served_by_);
    return Status::PeerLost(Cause::kDied, {served_by_},
                            rank + " died during hvd.init(): " + who_ +
                                ", which it served, is gone. Look at the output of " + rank +
                                " for the cause.");
  }
  return Status(why.code(), "lost the job's store while " + doing + ": " + why.message() +
                                " (has the launcher, or rank 0, which serves it, ended?)");
}

Status TcpStore::Ask(const Question& question, std::string* reply) {
  const auto& [operation, key, value, wait, argument, patience] = question;
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return Status::InvalidArgument("a key of the store has 1 to 4096 bytes, not " +
                                   std::to_string(key.size()));
  }
  const size_t bytes = 1 + 4 + key.size() + 4 + value.size();
  if (bytes > kMaxPayload) {
    return Status::InvalidArgument("the value of '" + key + "' has " +
                                   std::to_string(value.size()) +
                                   " bytes; the store takes at most 64 MiB with the key");
  }
  const bool waits = operation == Operation::kGet || operation == Operation::kCollect ||
                     operation == Operation::kArrive;
  const Deadline turn = waits ? wait : Deadline::After(patience);
  {
    MutexLock lock(mutex_);
    while (busy_) {
      if (turn.Passed()) {
        return Status::Timeout("another thread was still waiting for " + who_ + "; '" + key +
                               "' was not requested");
      }
      idle_.WaitFor(mutex_, turn.Left(kSecond));
    }
    busy_ = true;
  }
  // The argument is computed once this thread may ask, because the server must not wait longer than
  // the caller.
  std::string request;
  request.reserve(kHeaderBytes + bytes);
  AppendInteger(&request, sequence_);
  AppendInteger(&request, static_cast<uint64_t>(bytes));
  AppendInteger(&request, static_cast<uint8_t>(operation));
  AppendInteger(&request, static_cast<uint32_t>(key.size()));
  request += key;
  AppendInteger(&request, waits ? WaitMillis(wait) : argument);
  request += value;

  const Deadline answer =
      waits && wait.never() ? wait : Deadline::After((waits ? wait.Left() : 0) + patience);
  std::string payload;
  if (broken_.ok()) {
    const Status exchanged = Exchange(request, answer, &payload);
    if (!exchanged.ok()) {
      broken_ = Broken(exchanged, "asking for '" + key + "'");
    } else if (static_cast<ReplyStatus>(payload[0]) == ReplyStatus::kLost) {
      broken_ = verdict_ = Verdict(payload.substr(1));
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
  if (code == ReplyStatus::kBadRequest)
    return Status::InvalidArgument(who_ + " refused: " + payload);
  if (reply != nullptr) *reply = std::move(payload);
  return Status::Ok();
}

Status TcpStore::Exchange(const std::string& request, Deadline deadline, std::string* reply) {
  HVDLITE_RETURN_IF_ERROR(
      tcp::WriteFull(fd_.get(), request.data(), request.size(), deadline, who_));
  return ReadReply(deadline, reply);
}

Status TcpStore::ReadReply(Deadline deadline, std::string* reply) {
  char header[kHeaderBytes];
  HVDLITE_RETURN_IF_ERROR(tcp::ReadFull(fd_.get(), header, sizeof(header), deadline, who_));
  const auto sequence = LoadInteger<uint32_t>(header);
  const auto bytes = LoadInteger<uint64_t>(header + 4);
  if (sequence != sequence_) {
    return Status::Io(who_ + " answered out of order (frame " + std::to_string(sequence) +
                      " instead of " + std::to_string(sequence_) +
                      "): another process may tamper with the connection");
  }
  if (bytes < 1 || bytes > kMaxPayload) {
    return Status::Io(who_ + " announced a reply of " + std::to_string(bytes) +
                      " bytes; 1 to 64 MiB are possible");
  }
  reply->resize(bytes);
  HVDLITE_RETURN_IF_ERROR(tcp::ReadFull(fd_.get(), reply->data(), reply->size(), deadline, who_));
  if (static_cast<uint8_t>((*reply)[0]) > static_cast<uint8_t>(ReplyStatus::kLost)) {
    return Status::Io(who_ + " answered with an unknown status");
  }
  return Status::Ok();
}

}  // namespace hvdlite::rendezvous
