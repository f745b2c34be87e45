#include "engine/fuse/plan.h"

#include "engine/shapes.h"

namespace hvdlite::engine {
namespace {

bool SameBatch(const Request& a, const Request& b, bool groups_alone) {
  return a.kind == b.kind && a.dtype == b.dtype && a.op == b.op && a.device == b.device &&
         a.root == b.root && a.prescale == b.prescale && a.postscale == b.postscale &&
         a.codec == b.codec && (!groups_alone || a.group == b.group);
}

// Adasum adds its dot products by parts of the batch, so company would change a tensor's bits.
bool Fuses(const Request& request) {
  return Has(request.kind, kFuses) &&
         !(Has(request.kind, kAdasum) && request.op == ReduceOp::kAdasum);
}

struct OpenBatch {
  const Request* like;
  size_t index;  // into the result
  int64_t bytes;
};

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
      if (SameBatch(*batch.like, request, options.groups_alone)) match = &batch;
    }
    // A group's members stay with the earlier ones, even beyond the threshold.
    const bool continues_group =
        match != nullptr && in_group && match->like->group == request.group;
    if (match != nullptr && Fuses(request) && options.threshold > 0 &&
        (continues_group || match->bytes + bytes <= options.threshold)) {
      batches[match->index].push_back(i);
      match->bytes += bytes;
      match->like = &request;
      continue;
    }
    batches.push_back({i});
    const OpenBatch fresh{&request, batches.size() - 1, bytes};
    if (match != nullptr) {
      *match = fresh;
    } else {
      open.push_back(fresh);
    }
  }
  return batches;
}

}  // namespace hvdlite::engine
