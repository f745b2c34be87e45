#include "fake_gpu/nccl/operation.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "kernels/reference.h"

namespace fake_nccl {

namespace {

using hvdlite::DType;
using hvdlite::ReduceOp;
using hvdlite::kernels::ReduceSpec;
namespace reference = hvdlite::kernels::reference;

using Bytes = std::vector<char>;

constexpr auto kBetweenLooks = std::chrono::microseconds(30);

// What a rank says before its data, so that the other end can compare.
struct Header {
  int what = 0;
  int type = 0;
  int op = 0;
  int peer = 0;
  uint64_t count = 0;
  bool operator==(const Header&) const = default;
};

std::string ToText(const Header& header) {
  constexpr const char* names[] = {"ncclAllReduce", "ncclReduce",        "ncclBroadcast",
                                   "ncclAllGather", "ncclReduceScatter", "ncclSend",
                                   "ncclRecv"};
  return std::string(names[header.what]) + "(count " + std::to_string(header.count) + ", type " +
         std::to_string(header.type) + ", op " + std::to_string(header.op) + ", peer or root " +
         std::to_string(header.peer) + ")";
}

Header HeaderOf(const Operation& operation) {
  return {static_cast<int>(operation.what), operation.type, operation.op, operation.peer,
          operation.count};
}

// A header and data, on their way through a pipe; `at` counts both.
struct Outgoing {
  Header header;
  const char* data;
  size_t bytes;
  size_t at = 0;
};
struct Incoming {
  Header wanted;
  char* data;
  size_t bytes;
  Header header{};
  size_t at = 0;
};

// All that one rank sends and receives at a time, in order between each two ranks.
class Exchange {
 public:
  explicit Exchange(const Place& place) : place_(place) {}

  void Send(int to, const Header& header, const void* data, size_t bytes) {
    out_[to].push_back({header, static_cast<const char*>(data), bytes});
  }
  void Receive(int from, const Header& wanted, void* data, size_t bytes) {
    in_[from].push_back({wanted, static_cast<char*>(data), bytes});
  }

  bool Run(std::string* problem) {
    while (true) {
      bool moved = false;
      bool left = false;
      for (int peer = 0; peer < place_.ranks; ++peer) {
        while (!out_[peer].empty() && Push(peer, &moved)) out_[peer].pop_front();
        while (!in_[peer].empty() && Pull(peer, &moved, problem)) in_[peer].pop_front();
        if (!problem->empty()) return false;
        left = left || !out_[peer].empty() || !in_[peer].empty();
      }
      if (!left) return true;
      if (place_.given_up()) return false;
      if (!moved) std::this_thread::sleep_for(kBetweenLooks);
    }
  }

 private:
  // Whether the first message has gone wholly.
  bool Push(int peer, bool* moved) {
    Outgoing& message = out_[peer].front();
    Pipe& pipe = place_.rendezvous->pipe(place_.rank, peer);
    const size_t whole = sizeof(Header) + message.bytes;
    while (message.at < whole) {
      size_t now;
      if (message.at < sizeof(Header)) {
        now = pipe.Write(reinterpret_cast<const char*>(&message.header) + message.at,
                         sizeof(Header) - message.at);
      } else {
        now = pipe.Write(message.data + (message.at - sizeof(Header)), whole - message.at);
      }
      if (now == 0) return false;
      *moved = true;
      message.at += now;
    }
    return true;
  }

  bool Pull(int peer, bool* moved, std::string* problem) {
    Incoming& message = in_[peer].front();
    Pipe& pipe = place_.rendezvous->pipe(peer, place_.rank);
    const size_t whole = sizeof(Header) + message.bytes;
    while (message.at < whole) {
      size_t now;
      if (message.at < sizeof(Header)) {
        now = pipe.Read(reinterpret_cast<char*>(&message.header) + message.at,
                        sizeof(Header) - message.at);
        if (message.at + now == sizeof(Header) && !(message.header == message.wanted)) {
          *problem = "rank " + std::to_string(place_.rank) + " expects " + ToText(message.wanted) +
                     " of rank " + std::to_string(peer) + ", which has called " +
                     ToText(message.header);
          return false;
        }
      } else {
        now = pipe.Read(message.data + (message.at - sizeof(Header)), whole - message.at);
      }
      if (now == 0) return false;
      *moved = true;
      message.at += now;
    }
    return true;
  }

  const Place& place_;
  std::deque<Outgoing> out_[kMostRanks];
  std::deque<Incoming> in_[kMostRanks];
};

DType DTypeOf(int type) {
  constexpr DType dtypes[kTypes] = {
      DType::kInt8,   DType::kUInt8,   DType::kInt32,   DType::kUInt32,  DType::kInt64,
      DType::kUInt64, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kBFloat16};
  return dtypes[type];
}

ReduceSpec SpecOf(int op, int type, int ranks) {
  constexpr ReduceOp ops[kOps] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax,
                                  ReduceOp::kMin, ReduceOp::kSum};
  ReduceSpec spec;
  spec.dtype = DTypeOf(type);
  spec.op = ops[op];
  if (op == ncclAvg) spec.divisor = ranks;
  return spec;
}

class Collective {
 public:
  Collective(const Place& place, const Operation& operation)
      : place_(place),
        o_(operation),
        header_(HeaderOf(operation)),
        bytes_(operation.bytes()),
        exchange_(place) {}

  bool Run(std::string* problem) {
    switch (o_.what) {
      case What::kAllReduce: return Reduce(bytes_, /*scatter=*/false, /*all=*/true, problem);
      case What::kReduce: return Reduce(bytes_, /*scatter=*/false, /*all=*/false, problem);
      case What::kReduceScatter: return Reduce(bytes_, /*scatter=*/true, /*all=*/true, problem);
      case What::kBroadcast: return Broadcast(problem);
      default: return Gather(problem);
    }
  }

 private:
  const char* from(int part) const {
    return static_cast<const char*>(o_.from) + static_cast<size_t>(part) * bytes_;
  }
  char* to(int part) const {
    return static_cast<char*>(o_.to) + static_cast<size_t>(part) * bytes_;
  }

  // visit(peer) for all but this rank
  template <typename Visit>
  void Others(Visit visit) {
    for (int peer = 0; peer < place_.ranks; ++peer) {
      if (peer != place_.rank) visit(peer);
    }
  }

  // The whole input of everybody (a part of it: `scatter`) goes to everybody (to the root: not
  // `all`), who sums in memory of its own, so that output may be input.
  bool Reduce(size_t bytes, bool scatter, bool all, std::string* problem) {
    const bool mine = all || place_.rank == o_.peer;
    std::vector<Bytes> inputs(static_cast<size_t>(place_.ranks));
    Others([&](int peer) {
      exchange_.Send(peer, header_, from(scatter ? peer : 0), all || peer == o_.peer ? bytes : 0);
      Bytes& input = inputs[static_cast<size_t>(peer)];
      input.resize(mine ? bytes : 0);
      exchange_.Receive(peer, header_, input.data(), input.size());
    });
    const char* const own = from(scatter ? place_.rank : 0);
    if (mine) inputs[static_cast<size_t>(place_.rank)].assign(own, own + bytes);
    if (!exchange_.Run(problem)) return false;
    if (!mine) return true;
    std::vector<const uint8_t*> sources;
    for (const Bytes& input : inputs)
      sources.push_back(reinterpret_cast<const uint8_t*>(input.data()));
    const auto result = reference::Reduce(SpecOf(o_.op, o_.type, place_.ranks), sources,
                                          static_cast<int64_t>(o_.count));
    memcpy(o_.to, result.data(), bytes);
    return true;
  }

  bool Broadcast(std::string* problem) {
    const bool root = place_.rank == o_.peer;
    Others([&](int peer) {
      exchange_.Send(peer, header_, o_.from, root ? bytes_ : 0);
      exchange_.Receive(peer, header_, o_.to, peer == o_.peer ? bytes_ : 0);
    });
    if (root && o_.from != o_.to) memcpy(o_.to, o_.from, bytes_);
    return exchange_.Run(problem);
  }

  bool Gather(std::string* problem) {
    Others([&](int peer) {
      exchange_.Send(peer, header_, o_.from, bytes_);
      exchange_.Receive(peer, header_, to(peer), bytes_);
    });
    if (to(place_.rank) != o_.from) memcpy(to(place_.rank), o_.from, bytes_);
    return exchange_.Run(problem);
  }

  const Place& place_;
  const Operation& o_;
  const Header header_;
  const size_t bytes_;
  Exchange exchange_;
};

bool Messages(const Place& place, const std::vector<Operation>& group, std::string* problem) {
  Exchange exchange(place);
  std::deque<const Operation*> to_myself;
  std::deque<const Operation*> from_myself;
  for (const Operation& message : group) {
    if (!message.is_message()) continue;
    // As its sender sees it.
    Header header = HeaderOf(message);
    header.what = static_cast<int>(What::kSend);
    header.op = 0;
    if (message.peer == place.rank) {
      (message.what == What::kSend ? to_myself : from_myself).push_back(&message);
    } else if (message.what == What::kSend) {
      exchange.Send(message.peer, header, message.from, message.bytes());
    } else {
      header.peer = place.rank;
      exchange.Receive(message.peer, header, message.to, message.bytes());
    }
  }
  if (to_myself.size() != from_myself.size()) {
    *problem = "rank " + std::to_string(place.rank) + " sends to itself otherwise than it receives";
    return false;
  }
  for (size_t i = 0; i < to_myself.size(); ++i) {
    if (to_myself[i]->bytes() != from_myself[i]->bytes()) {
      *problem =
          "rank " + std::to_string(place.rank) + " sends to itself otherwise than it receives";
      return false;
    }
    memmove(from_myself[i]->to, to_myself[i]->from, to_myself[i]->bytes());
  }
  return exchange.Run(problem);
}

}  // namespace

std::string Operation::ToString() const {
  return ToText(HeaderOf(*this));
}

std::string Problem(const Operation& o, int rank, int ranks) {
  if (o.type < 0 || o.type >= kTypes) return "there is no such type";
  if (o.op < 0 || o.op >= kOps) return "there is no such operation";
  if (o.peer < 0 || o.peer >= ranks) return "there is no such rank";
  if (o.count == 0) return "";
  const bool reads = o.what == What::kBroadcast ? rank == o.peer : o.what != What::kRecv;
  const bool writes = o.what == What::kReduce ? rank == o.peer : o.what != What::kSend;
  if (reads && o.from == nullptr) return "there is nothing to send";
  if (writes && o.to == nullptr) return "there is no place for the result";
  return "";
}

bool Perform(const Place& place, const std::vector<Operation>& group, std::string* problem) {
  for (const Operation& operation : group) {
    if (!operation.is_message() && !Collective(place, operation).Run(problem)) return false;
  }
  return Messages(place, group, problem);
}

}  // namespace fake_nccl
