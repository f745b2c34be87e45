#include "engine/fuse/plan.h"

#include "engine/shapes.h"

namespace hvdlite::engine {
namespace {

// Adasum adds its dot products by parts of the batch, so company would change a tensor's bits.
bool Fuses(const Request& request) {
  return Has(request.kind, kFuses) &&
         !(Has(request.kind, kAdasum) && request.op == ReduceOp::kAdasum);
}

struct OpenBatch {
  const Request* like;
  CodecSpec codec;  // of some of its tensors
  bool sparse;      // whether some are
  size_t index;     // into the result
  int64_t bytes;
};

// Tensors in host memory that travel whole keep encoded or sparse ones company
// (comm/compressed/split.h).
bool TravelsWith(const OpenBatch& batch, const Request& request) {
  if (request.device != DeviceKind::kHost) return batch.codec == request.codec;
  const bool is_plain = !batch.codec.encodes() && !batch.sparse;
  if (request.codec.encodes()) return is_plain || batch.codec == request.codec;
  return request.taken == 0 || is_plain || batch.sparse;
}

bool SameBatch(const OpenBatch& batch, const Request& b, bool groups_alone) {
  const Request& a = *batch.like;
  return a.kind == b.kind && a.dtype == b.dtype && a.op == b.op && a.device == b.device &&
         a.root == b.root && a.prescale == b.prescale && a.postscale == b.postscale &&
         (!groups_alone || a.group == b.group) && TravelsWith(batch, b);
}

}  // namespace

std::vector<std::vector<size_t>> Plan(const std::vector<AgreedPtr>& ready,
                                      const FuseOptions& options) {
  std::vector<std::vector<size_t>> batches;
  std::vector<OpenBatch> open;  // at most one per signature
  for (size_t i = 0; i < ready.size(); ++i) {
    const Request& request = ready[i]->request;
    const int64_t bytes = ResultBytes(*ready[i]);
    const bool in_group = request.group != 0;
    OpenBatch* match = nullptr;
    for (OpenBatch& batch : open) {
      if (SameBatch(batch, request, options.groups_alone)) match = &batch;
    }
    // A group's members stay with the earlier ones, even beyond the threshold.
    const bool continues_group =
        match != nullptr && in_group && match->like->group == request.group;
    if (match != nullptr && Fuses(request) && options.threshold > 0 &&
        (continues_group || match->bytes + bytes <= options.threshold)) {
      batches[match->index].push_back(i);
      match->bytes += bytes;
      match->like = &request;
      if (request.codec.encodes()) match->codec = request.codec;
      match->sparse |= request.taken > 0;
      continue;
    }
    batches.push_back({i});
    const OpenBatch fresh{&request, request.codec, request.taken > 0, batches.size() - 1, bytes};
    if (match != nullptr) {
      *match = fresh;
    } else {
      open.push_back(fresh);
    }
  }
  return batches;
}

}  // namespace hvdlite::engine
