#include "engine/message.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/list.h"

namespace hvdlite::engine {
namespace {

// Most requests are unscaled, ungrouped and on the host. One byte says which of the rare fields
// follow.
enum : uint8_t {
  kScaled = 1,
  kGrouped = 2,
  kHasSplits = 4,
  kCacheable = 8,
  kOnDevice = 16,
  kHasRoot = 32,
  kEncoded = 64,
  kSparse = 128
};

// Added to the operation's number.
constexpr uint8_t kIsList = 128;

constexpr size_t kMaxDimensions = 64;
constexpr uint64_t kMaxInGroup = 1u << 24;

bool AllBetween(const std::vector<int64_t>& values, int64_t most) {
  for (int64_t v : values) {
    if (v < 0 || v > most) return false;
  }
  return true;
}

bool SumsFloat32(const Request& request) {
  return request.kind == OpKind::kAllreduce && request.dtype == DType::kFloat32 &&
         (request.op == ReduceOp::kSum || request.op == ReduceOp::kAverage);
}

}  // namespace

bool FitsElements(const Shape& shape) {
  int64_t product = 1;
  for (int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(product, d > 1 ? d : 1, &product) || product > kMaxElements)
      return false;
  }
  return true;
}

bool CanEncode(const Request& request) {
  return SumsFloat32(request) && IsValid(request.codec);
}

bool CanBeSparse(const Request& request) {
  const int64_t count = NumElements(request.shape);
  return SumsFloat32(request) && request.device == DeviceKind::kHost && !request.codec.encodes() &&
         count <= std::numeric_limits<int32_t>::max() && request.taken >= 1 &&
         request.taken <= count;
}

bool SameNames(const Request& a, const Request& b) {
  return a.names == b.names || (a.names != nullptr && b.names != nullptr && *a.names == *b.names);
}

bool Request::SameExceptName(const Request& o) const {
  return kind == o.kind && dtype == o.dtype && op == o.op && device == o.device &&
         cacheable == o.cacheable && root == o.root && prescale == o.prescale &&
         postscale == o.postscale && codec == o.codec && taken == o.taken && group == o.group &&
         group_size == o.group_size && shape == o.shape && shapes == o.shapes &&
         splits == o.splits && SameNames(*this, o);
}

std::string Shown(const Request& request) {
  const std::string kind(Name(request.kind));
  const size_t prefix = request.name.find(kind + ".");
  const bool has_prefix =
      prefix == 0 || (prefix != std::string::npos && request.name.rfind("grouped_", 0) == 0);
  return kind + " '" + (has_prefix ? request.name.substr(prefix + kind.size() + 1) : request.name) +
         "'";
}

void Request::Encode(Writer* out) const {
  uint8_t flags = 0;
  if (prescale != 1.0 || postscale != 1.0) flags |= kScaled;
  if (group != 0) flags |= kGrouped;
  if (!splits.empty()) flags |= kHasSplits;
  if (cacheable) flags |= kCacheable;
  if (device != DeviceKind::kHost) flags |= kOnDevice;
  if (root != 0) flags |= kHasRoot;
  if (codec.encodes()) flags |= kEncoded;
  if (taken != 0) flags |= kSparse;
  out->U8(static_cast<uint8_t>(static_cast<uint8_t>(kind) | (is_list() ? kIsList : 0)));
  out->U8(static_cast<uint8_t>(dtype));
  out->U8(static_cast<uint8_t>(op));
  out->U8(flags);
  if (flags & kHasRoot) out->Signed(root);
  if (flags & kScaled) {
    out->Double(prescale);
    out->Double(postscale);
  }
  if (flags & kEncoded) {
    out->U8(static_cast<uint8_t>(codec.codec));
    out->Double(codec.parameter);
  }
  if (flags & kGrouped) {
    out->Varint(group);
    if (!is_list()) out->Varint(group_size);
  }
  if (is_list()) {
    out->Varint(group_size);
    out->List(shapes);
    out->U8(names != nullptr ? 1 : 0);
    for (uint32_t i = 0; names != nullptr && i < group_size; ++i) out->Text((*names)[i]);
  } else {
    out->List(shape);
  }
  if (flags & kHasSplits) out->List(splits);
  if (flags & kSparse) out->Varint(static_cast<uint64_t>(taken));
  out->Text(name);
}

namespace {

// What a list has instead of a shape.
bool DecodeList(Reader* in, Request* out) {
  out->group_size = static_cast<uint32_t>(in->Below(kMaxInGroup));
  out->shapes = in->List();
  if (!IsSoundList(*out)) return false;
  out->shape = {ElementsOf(*out)};
  if (in->U8() == 0) return in->ok();
  auto names = std::make_shared<std::vector<std::string>>();
  for (uint32_t i = 0; i < out->group_size && in->ok(); ++i) names->push_back(in->Text());
  out->names = std::move(names);
  return in->ok();
}

}  // namespace

bool Request::Decode(Reader* in, Request* out) {
  const uint8_t head = in->U8();
  const bool is_list = (head & kIsList) != 0;
  const uint8_t kind = head & ~kIsList;
  const uint8_t dtype = in->U8();
  const uint8_t op = in->U8();
  const uint8_t flags = in->U8();
  if (kind >= kOpKindCount || !IsValidDType(dtype) || op >= kReduceOpCount) return false;
  out->kind = static_cast<OpKind>(kind);
  out->dtype = static_cast<DType>(dtype);
  out->op = static_cast<ReduceOp>(op);
  out->cacheable = (flags & kCacheable) != 0;
  out->device = (flags & kOnDevice) != 0 ? DeviceKind::kCuda : DeviceKind::kHost;
  out->root = (flags & kHasRoot) != 0 ? in->Signed() : 0;
  out->prescale = out->postscale = 1.0;
  if (flags & kScaled) {
    out->prescale = in->Double();
    out->postscale = in->Double();
  }
  out->codec = {};
  if (flags & kEncoded) {
    const uint8_t codec = in->U8();
    if (codec == 0 || codec >= kCodecCount) return false;
    out->codec = {static_cast<Codec>(codec), in->Double()};
    if (!CanEncode(*out)) return false;
  }
  out->group = 0;
  out->group_size = 0;
  out->shapes.clear();
  out->names = nullptr;
  if (flags & kGrouped) {
    out->group = in->Varint();
    if (!is_list) out->group_size = static_cast<uint32_t>(in->Below(kMaxInGroup));
    if (out->group == 0) return false;  // 0 is "no group", which the flag denies
  }
  if (!is_list) {
    out->shape = in->List();
  } else if ((flags & kSparse) != 0 || !DecodeList(in, out)) {
    return false;
  }
  out->splits.clear();
  if (flags & kHasSplits) out->splits = in->List();
  out->taken = (flags & kSparse) != 0 ? static_cast<int64_t>(in->Below(uint64_t{1} << 31)) : 0;
  out->name = in->Text();
  return in->ok() && out->shape.size() <= kMaxDimensions && FitsElements(out->shape) &&
         AllBetween(out->splits, kMaxElements) && ((flags & kSparse) == 0 || CanBeSparse(*out));
}

void Encode(const Response& response, Writer* out) {
  // Slot 0 is no slot, so "cached slot s" and "described, remember it as slot s" share one number.
  out->Varint(response.slot << 1 | (response.cached ? 1 : 0));
  if (response.cached) return;
  response.agreed->request.Encode(out);
  out->List(response.agreed->rows);
}

bool Decode(Reader* in, Response* out) {
  const uint64_t head = in->Varint();
  out->slot = head >> 1;
  out->cached = (head & 1) != 0;
  if (out->cached) return in->ok() && out->slot != kNoSlot;
  Agreed agreed;
  if (!Request::Decode(in, &agreed.request)) return false;
  agreed.rows = in->List();
  Shape row = agreed.request.shape;
  if (!row.empty()) row[0] = 1;
  if (!in->ok() || !AllBetween(agreed.rows, kMaxElements / std::max<int64_t>(NumElements(row), 1)))
    return false;
  out->agreed = std::make_shared<const Agreed>(std::move(agreed));
  return true;
}

void Encode(const Status& status, Writer* out) {
  out->U8(static_cast<uint8_t>(status.code()));
  out->U8(static_cast<uint8_t>(status.cause()));
  out->List({status.ranks().begin(), status.ranks().end()});
  out->Text(status.message());
}

bool Decode(Reader* in, Status* out) {
  const uint8_t code = in->U8();
  const uint8_t cause = in->U8();
  const std::vector<int64_t> ranks = in->List();
  std::string message = in->Text();
  if (!in->ok() || code == 0 || code >= kStatusCodeCount || cause >= kCauseCount ||
      ranks.size() > Status::kMostRanks || !AllBetween(ranks, std::numeric_limits<int>::max()))
    return false;
  *out = Status(static_cast<StatusCode>(code), std::move(message), static_cast<Cause>(cause),
                {ranks.begin(), ranks.end()});
  return true;
}

Status Nonsense(int rank) {
  return Status::Internal("rank " + std::to_string(rank) +
                          " sent a negotiation message that makes no sense; do all ranks run the "
                          "same version of hvdlite?");
}

}  // namespace hvdlite::engine
