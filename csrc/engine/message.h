// The messages that ranks exchange before a collective: Requests go up to the first member of the
// process set, Responses come down. This file has their types and byte format; negotiate/ decides
// which rank sends what when.
//
// Decoders accept any bytes without harm. They return false for bytes that no rank of ours would
// send (fuzzed).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/codec.h"
#include "base/dtype.h"
#include "base/ops.h"
#include "base/shape.h"
#include "base/status.h"
#include "base/tensor.h"
#include "base/tensor_codec.h"

namespace hvdlite::engine {

// The most elements that one rank's part of a tensor may have: far beyond any memory, and small
// enough that the bytes of all ranks together never overflow 63 bits (up to 32,768 ranks).
constexpr int64_t kMaxElements = int64_t{1} << 40;
// Also counts the dimensions beside one that is zero, so that no intermediate product overflows.
bool FitsElements(const Shape& shape);

// One rank's request for one operation on one tensor, or on a list of tensors (list.h).
struct Request {
  OpKind kind = OpKind::kAllreduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // Allreduce, Reducescatter
  DeviceKind device = DeviceKind::kHost;
  bool cacheable = true;  // false for names that are used once
  int64_t root = 0;       // Broadcast: member. To remove a process set: its id.
  double prescale = 1.0;
  double postscale = 1.0;
  CodecSpec codec;          // Allreduce
  int64_t taken = 0;        // Allreduce: each rank sends so many elements; 0: all
  uint64_t group = 0;       // hash of the group's name; 0: not grouped
  uint32_t group_size = 0;  // of a list: how many tensors it has
  Shape shape;              // of a list: one dimension, the elements of all its tensors
  // Of a list: for each of its tensors, the number of dimensions and the dimensions.
  std::vector<int64_t> shapes;
  // Of a list's tensors; null: it is a group, whose tensors are named after it. Shared, not copied.
  std::shared_ptr<const std::vector<std::string>> names;
  // Alltoall: rows for each member. AddProcessSet: the ranks. kAmongNamed: the ranks that take
  // part, ascending.
  std::vector<int64_t> splits;
  std::string name;

  bool is_list() const { return !shapes.empty(); }
  bool SameExceptName(const Request& other) const;
  void Encode(Writer* out) const;
  static bool Decode(Reader* in, Request* out);
};

// Whether the request's codec may be one: an allreduce that sums float32, with a parameter in the
// codec's range.
bool CanEncode(const Request& request);
// Whether some elements of the tensor may be sent instead of all: an allreduce that sums float32,
// without a codec, whose positions have 32 bits.
bool CanBeSparse(const Request& request);

// The operation as messages show it: "allreduce 'conv1/weight'". On the wire a name begins with its
// operation ("allreduce.conv1/weight"), so that different operations on one name stay apart.
std::string Shown(const Request& request);

// The records of an upward frame. A frame starts with the member it speaks for; records follow
// until its end.
enum class Up : uint8_t {
  kRequest = 0,          // a Request in full
  kCached = 1,           // slot number: the same request as last time
  kEvicted = 2,          // slot number: this rank has forgotten the slot
  kShutdown = 3,         // this rank wants to leave
  kAbort = 4,            // status: the job has failed
  kAlive = 5,            // a sign of life without content
  kCachedBySubtree = 6,  // slot number: every member below the sender has announced it
  kHere = 7,             // Whereabouts: where this rank's program is
  kUncached = 8,         // slot number: the sender asks in full; its slot does not count this time
  kResult = 9,           // number of a decision, and the digest of a sample of its result
  kOffer = 10,           // slot number, epoch, tensor: see meeting.h
  kDecline = 11,         // the same
};

// The records of a downward frame.
enum class Down : uint8_t {
  kExecute = 0,   // one batch
  kError = 1,     // operations that the ranks disagree about
  kEvict = 2,     // slot number
  kShutdown = 3,  // status: the job ends
  kAbort = 4,
  kAlive = 5,
  kWhere = 6,    // operations are stalled: each rank is asked where it is
  kTune = 7,     // the setting that all ranks use from here on, as a number
  kVerdict = 8,  // a text: which rank holds up stalled operations, and where it is
  kOffer = 9,    // as upwards: the root is a member, too
  kDecline = 10,
};

constexpr uint64_t kNoSlot = 0;

// What the members have agreed on for one operation. It never changes, so it is shared and not
// copied.
struct Agreed {
  Request request;  // as its first sender sent it; per-member differences are in rows
  // Per member. Allgather: first dimension. Alltoall: splits, row by row. Joined members have 0.
  // Empty for other kinds.
  std::vector<int64_t> rows;
};
using AgreedPtr = std::shared_ptr<const Agreed>;

// One operation to be carried out.
struct Response {
  // null in a cached response that was just decoded: the engine fills it in from the slot
  AgreedPtr agreed;
  uint64_t slot = kNoSlot;  // the slot that remembers it
  bool cached = false;      // only the slot was sent; the slot stands for everything else
};

bool SameNames(const Request& a, const Request& b);

void Encode(const Response& response, Writer* out);
// A cached response is decoded to its slot only, any other to the agreement.
bool Decode(Reader* in, Response* out);

void Encode(const Status& status, Writer* out);
bool Decode(Reader* in, Status* out);

// The failure of a member whose message cannot be read.
Status Nonsense(int rank);

}  // namespace hvdlite::engine
