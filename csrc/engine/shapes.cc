#include "engine/shapes.h"

#include <algorithm>
#include <numeric>

#include "engine/negotiate/named.h"

namespace hvdlite::engine {
namespace {

int64_t Sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

bool HasRoot(const Request& request, int members) {
  return !Has(request.kind, kRooted) || (request.root >= 0 && request.root < members);
}

bool HasItsRanks(const Request& request, int members) {
  return !Has(request.kind, kAmongNamed) || NamesRanks(request, members);
}

bool HasItsRows(const Request& request) {
  switch (ResultOf(request.kind)) {
    case Result::kGathered:
    case Result::kExchanged:
    case Result::kShared: return !request.shape.empty();
    default: return true;
  }
}

}  // namespace

bool IsPossible(const Request& request, int members) {
  const bool splits = ResultOf(request.kind) == Result::kExchanged;
  return HasRoot(request, members) && HasItsRows(request) && HasItsRanks(request, members) &&
         (!splits || request.splits.size() == static_cast<size_t>(members));
}

bool IsPossible(const Agreed& agreed, int members) {
  const Request& request = agreed.request;
  return HasRoot(request, members) && HasItsRows(request) && HasItsRanks(request, members) &&
         agreed.rows.size() == RowCount(request.kind, members);
}

size_t RowCount(OpKind kind, int members) {
  const auto n = static_cast<size_t>(members);
  switch (ResultOf(kind)) {
    case Result::kGathered: return n;
    case Result::kExchanged: return n * n;
    default: return 0;
  }
}

void PutRows(const Request& request, int member, int members, std::vector<int64_t>* rows) {
  if (ResultOf(request.kind) == Result::kGathered) {
    (*rows)[static_cast<size_t>(member)] = request.shape[0];
  } else if (ResultOf(request.kind) == Result::kExchanged) {
    std::copy(request.splits.begin(), request.splits.end(),
              rows->begin() + static_cast<long>(member) * members);
  }
}

Request RequestOf(const Agreed& agreed, int member, int members) {
  Request request = agreed.request;
  if (ResultOf(request.kind) == Result::kGathered) {
    request.shape[0] = agreed.rows[static_cast<size_t>(member)];
  } else if (ResultOf(request.kind) == Result::kExchanged) {
    const auto row = agreed.rows.begin() + static_cast<long>(member) * members;
    request.splits.assign(row, row + members);
  }
  return request;
}

std::optional<Shape> KnownResult(const Request& request, int member, int members) {
  if (RowsDiffer(request.kind) || !HasTensor(request.kind)) return std::nullopt;
  Shape shape = request.shape;
  if (ResultOf(request.kind) == Result::kShared) shape[0] = ShareOfRows(shape[0], members, member);
  if (ResultOf(request.kind) == Result::kAtRoot && member != request.root) return Shape{0};
  return shape;
}

Shape ResultShape(const Agreed& agreed, int member, int members) {
  if (std::optional<Shape> known = KnownResult(agreed.request, member, members))
    return *std::move(known);
  Shape shape = agreed.request.shape;
  if (ResultOf(agreed.request.kind) == Result::kGathered) shape[0] = Sum(agreed.rows);
  if (ResultOf(agreed.request.kind) == Result::kExchanged)
    shape[0] = Sum(RowsReceived(agreed, member, members));
  return shape;
}

int64_t ResultBytes(const Agreed& agreed) {
  const Request& request = agreed.request;
  const int64_t elements = ResultOf(request.kind) == Result::kGathered
                               ? RowElements(request.shape) * Sum(agreed.rows)
                               : NumElements(request.shape);
  return elements * static_cast<int64_t>(SizeOf(request.dtype));
}

std::vector<int64_t> Counts(const Agreed& agreed, int members) {
  const Request& request = agreed.request;
  const int64_t row = RowElements(request.shape);
  std::vector<int64_t> counts;
  if (ResultOf(request.kind) == Result::kShared) {
    for (int m = 0; m < members; ++m)
      counts.push_back(ShareOfRows(request.shape[0], members, m) * row);
  } else if (ResultOf(request.kind) == Result::kAtRoot) {
    counts.resize(static_cast<size_t>(members));
    counts[static_cast<size_t>(request.root)] = NumElements(request.shape);
  } else {
    for (const int64_t rows : agreed.rows) counts.push_back(rows * row);
  }
  return counts;
}

std::vector<int64_t> RowsReceived(const Agreed& agreed, int member, int members) {
  std::vector<int64_t> received;
  if (ResultOf(agreed.request.kind) != Result::kExchanged) return received;
  const auto n = static_cast<size_t>(members);
  for (size_t from = 0; from < n; ++from)
    received.push_back(agreed.rows[from * n + static_cast<size_t>(member)]);
  return received;
}

}  // namespace hvdlite::engine
