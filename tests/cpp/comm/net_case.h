// A collective with its tensors on all members, and what it must give: said in the plainest way,
// one element at a time. Values are small whole numbers and scale factors powers of two, so that
// every order of summing is exact in every dtype and the expectation is one set of bytes.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/half.h"
#include "comm/batch.h"
#include "comm/net/communicator.h"
#include "comm/net_world.h"

namespace hvdlite::comm::net_testing {

using Bytes = std::vector<char>;

inline void Put(DType dtype, double value, char* to) {
  const auto put = [&](auto typed) { std::memcpy(to, &typed, sizeof(typed)); };
  switch (dtype) {
    case DType::kBool: put(static_cast<uint8_t>(value != 0)); break;
    case DType::kUInt8: put(static_cast<uint8_t>(static_cast<int64_t>(value))); break;
    case DType::kInt8: put(static_cast<int8_t>(static_cast<int64_t>(value))); break;
    case DType::kUInt16: put(static_cast<uint16_t>(static_cast<int64_t>(value))); break;
    case DType::kInt16: put(static_cast<int16_t>(static_cast<int64_t>(value))); break;
    case DType::kUInt32: put(static_cast<uint32_t>(static_cast<int64_t>(value))); break;
    case DType::kInt32: put(static_cast<int32_t>(value)); break;
    case DType::kUInt64: put(static_cast<uint64_t>(value)); break;
    case DType::kInt64: put(static_cast<int64_t>(value)); break;
    case DType::kFloat16: put(FloatToHalf(static_cast<float>(value))); break;
    case DType::kBFloat16: put(FloatToBFloat16(static_cast<float>(value))); break;
    case DType::kFloat32: put(static_cast<float>(value)); break;
    case DType::kFloat64: put(value); break;
  }
}

// What a test asks for. Which tensor shapes come out of it follows from the seed.
struct Case {
  OpKind kind = OpKind::kAllreduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int members = 2;
  std::vector<int64_t> sizes = {
      1};  // elements of each piece (of each member's largest part, where there are parts)
  int root = 0;
  bool in_place = false;
  double prescale = 1, postscale = 1, divisor = 1;
  bool adasum = false;
  uint32_t seed = 1;

  std::string ToString() const {
    std::ostringstream text;
    text << Name(kind) << " " << Name(dtype) << " " << Name(op) << " members=" << members
         << " root=" << root << " in_place=" << in_place << " scales=" << prescale << ","
         << postscale << "," << divisor << " sizes=";
    for (int64_t size : sizes) text << size << " ";
    return text.str();
  }
};

// Scale factors that take turns with the seed; a product has none.
inline void ScaleInTurns(Case* c) {
  if (c->op == ReduceOp::kProduct) return;
  c->prescale = c->seed % 3 == 0 ? 0.5 : 1;
  c->divisor = c->seed % 5 == 0 ? 2 : 1;
  c->postscale = c->seed % 7 == 0 ? 2 : 1;
}

inline const std::vector<OpKind> kKinds = {OpKind::kAllreduce, OpKind::kBroadcast,
                                           OpKind::kAllgather, OpKind::kReducescatter,
                                           OpKind::kAlltoall,  OpKind::kBarrier};

// Pieces' sizes: none, empty ones, one, odd ones, fused ones.
inline std::vector<std::vector<int64_t>> Shapes() {
  return {{},
          {0},
          {1},
          {2},
          {3},
          {13},
          {1000},
          {6007},
          {1, 0, 3, 0},
          {0, 0, 5},
          {7, 1, 300, 0, 2, 4099, 1}};
}

// Of one kind, with scale factors and places of the result that take turns; the first one's seed
// follows `seed`.
inline std::vector<Case> EveryOpDtypeAndShape(int members, const std::vector<ReduceOp>& ops,
                                              const std::vector<std::vector<int64_t>>& shapes,
                                              uint32_t seed, OpKind kind = OpKind::kAllreduce) {
  std::vector<Case> cases;
  for (ReduceOp op : ops) {
    for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
      for (const auto& sizes : shapes) {
        Case c;
        c.kind = kind;
        c.dtype = static_cast<DType>(dtype);
        c.op = op;
        c.members = members;
        c.sizes = sizes;
        c.seed = ++seed;
        c.in_place = seed % 2 == 0;
        ScaleInTurns(&c);
        cases.push_back(c);
      }
    }
  }
  return cases;
}

// Forty of them, in an order that the seed chooses.
inline std::vector<Case> KindsAndShapesInTurn(int members, uint32_t seed,
                                              const std::vector<OpKind>& kinds,
                                              const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<Case> cases;
  for (uint32_t i = 0; i < 40; ++i) {
    Case c;
    c.kind = kinds[(i + seed) % kinds.size()];
    c.members = members;
    c.sizes = shapes[(i * 7 + seed) % shapes.size()];
    c.seed = seed * 100 + i;
    c.in_place = i % 2 == 0;
    c.root = static_cast<int>(i) % members;
    cases.push_back(c);
  }
  return cases;
}

// Roots take turns, and so do results of their own and in place.
inline std::vector<Case> EveryKindDtypeAndShape(
    int members, const std::vector<OpKind>& kinds = kKinds,
    const std::vector<std::vector<int64_t>>& shapes = Shapes()) {
  std::vector<Case> cases;
  uint32_t seed = 1;
  for (OpKind kind : kinds) {
    for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
      for (const auto& sizes : shapes) {
        Case c;
        c.kind = kind;
        c.dtype = static_cast<DType>(dtype);
        c.members = members;
        c.sizes = sizes;
        c.seed = ++seed;
        c.root = static_cast<int>(seed) % members;
        c.in_place = seed % 2 == 0;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

// Reductions of six dtypes, with more factors than ScaleInTurns().
inline std::vector<Case> EveryReductionAndScale(int members, const std::vector<OpKind>& kinds = {
                                                                 OpKind::kAllreduce}) {
  std::vector<Case> cases;
  uint32_t seed = 1;
  for (OpKind kind : kinds) {
    for (DType dtype : {DType::kFloat32, DType::kInt32, DType::kBFloat16, DType::kFloat64,
                        DType::kInt8, DType::kBool}) {
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct,
                          ReduceOp::kAverage}) {
        for (const auto& sizes : Shapes()) {
          Case c;
          c.kind = kind;
          c.dtype = dtype;
          c.op = op;
          c.members = members;
          c.sizes = sizes;
          c.seed = ++seed;
          c.in_place = seed % 2 == 0;
          if (op != ReduceOp::kProduct) {
            if (seed % 3 != 0) c.prescale = 0.5;
            if (seed % 5 != 0) c.divisor = 4;
            if (seed % 7 != 0) c.postscale = 2;
          }
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

// Of any kind, dtype and root, with a few pieces of any size; an alltoall has one.
inline std::vector<Case> Mixed(int members, uint32_t count, int64_t most_elements) {
  std::mt19937 random(5);
  std::vector<Case> cases;
  for (uint32_t i = 0; i < count; ++i) {
    Case c;
    c.kind = kKinds[random() % kKinds.size()];
    c.dtype = static_cast<DType>(random() % kDTypeCount);
    c.members = members;
    c.root = static_cast<int>(random() % static_cast<uint32_t>(members));
    c.sizes.clear();
    const uint32_t pieces = c.kind == OpKind::kBarrier    ? 0
                            : c.kind == OpKind::kAlltoall ? 1
                                                          : random() % 4;
    for (uint32_t p = 0; p < pieces; ++p) c.sizes.push_back(random() % most_elements);
    c.in_place = random() % 2 == 0;
    c.seed = i;
    cases.push_back(c);
  }
  return cases;
}

// The tensors of all members. Each member touches only its own.
class Trial {
 public:
  explicit Trial(const Case& c) : case_(c) {
    std::mt19937 random(c.seed);
    const auto n = static_cast<size_t>(c.members);
    batches_.resize(n);
    inputs_.assign(n, std::vector<Bytes>(c.sizes.size()));
    outputs_ = expected_ = inputs_;
    for (auto& batch : batches_) {
      batch.kind = c.kind;
      batch.dtype = c.dtype;
      batch.root = c.root;
      batch.adasum = c.adasum;
      batch.reduce = {c.dtype, c.op, c.prescale, c.postscale, c.divisor};
      batch.pieces.resize(c.sizes.size());
    }
    if (c.kind == OpKind::kBarrier) return;
    for (size_t p = 0; p < c.sizes.size(); ++p) MakePiece(p, c.sizes[p], &random);
  }

  const Batch& batch(int member) const { return batches_[static_cast<size_t>(member)]; }
  const std::vector<Bytes>& outputs(int member) const {
    return outputs_[static_cast<size_t>(member)];
  }
  // A word about the first difference, or nothing.
  std::string Check(int member) const {
    const auto m = static_cast<size_t>(member);
    for (size_t p = 0; p < case_.sizes.size(); ++p) {
      if (case_.kind == OpKind::kBroadcast && member == case_.root &&
          batches_[m].pieces[p].output == nullptr) {
        continue;
      }
      if (outputs_[m][p] == expected_[m][p]) continue;
      const auto& got = outputs_[m][p];
      const auto& want = expected_[m][p];
      size_t i = 0;
      while (i < std::min(got.size(), want.size()) && got[i] == want[i]) ++i;
      return case_.ToString() + ": member " + std::to_string(member) + " piece " +
             std::to_string(p) + " differs at byte " + std::to_string(i) + " of " +
             std::to_string(want.size());
    }
    return "";
  }

 private:
  size_t Size() const { return SizeOf(case_.dtype); }

  void MakePiece(size_t p, int64_t size, std::mt19937* random) {
    const int n = case_.members;
    std::vector<int64_t> counts;
    const auto any = [&] { return std::uniform_int_distribution<int64_t>(0, size)(*random); };
    switch (case_.kind) {
      case OpKind::kAllreduce:
      case OpKind::kBroadcast: break;
      case OpKind::kAlltoall:
        for (int i = 0; i < n * n; ++i) counts.push_back(any());
        break;
      default:
        for (int i = 0; i < n; ++i) counts.push_back(any());
        counts[static_cast<size_t>(any()) % counts.size()] = size;
        break;
    }
    int64_t total = 0;
    for (int64_t count : counts) total += count;
    std::vector<std::vector<double>> values(static_cast<size_t>(n));
    for (int m = 0; m < n; ++m) {
      int64_t in = 0;
      switch (case_.kind) {
        case OpKind::kAllreduce: in = size; break;
        case OpKind::kBroadcast: in = m == case_.root ? size : 0; break;
        case OpKind::kAllgather: in = counts[static_cast<size_t>(m)]; break;
        case OpKind::kReducescatter: in = total; break;
        default:
          for (int to = 0; to < n; ++to) in += counts[static_cast<size_t>(m * n + to)];
      }
      auto& mine = values[static_cast<size_t>(m)];
      Bytes bytes(static_cast<size_t>(in) * Size());
      for (int64_t i = 0; i < in; ++i) {
        const bool product = case_.op == ReduceOp::kProduct;
        const int value =
            product ? 1 + static_cast<int>((*random)() % 2) : static_cast<int>((*random)() % 5);
        // Even, so that halving is exact in integers too (bool keeps what is not zero).
        mine.push_back(case_.prescale == 1 ? value : 2 * value);
        Put(case_.dtype, mine.back(), bytes.data() + static_cast<size_t>(i) * Size());
      }
      inputs_[static_cast<size_t>(m)][p] = std::move(bytes);
    }
    for (int m = 0; m < n; ++m) {
      const std::vector<double> result = Expect(m, counts, values);
      auto& want = expected_[static_cast<size_t>(m)][p];
      want.resize(result.size() * Size());
      for (size_t i = 0; i < result.size(); ++i)
        Put(case_.dtype, result[i], want.data() + i * Size());
      auto& out = outputs_[static_cast<size_t>(m)][p];
      out.assign(want.size(), char(0x5a));
      Piece& piece = batches_[static_cast<size_t>(m)].pieces[p];
      Bytes& in = inputs_[static_cast<size_t>(m)][p];
      // Only these two promise that output and input may be the same memory.
      const bool may =
          case_.kind == OpKind::kAllreduce || (case_.kind == OpKind::kBroadcast && m == case_.root);
      const bool in_place = may && case_.in_place;
      if (in_place) out = in;
      piece.input = in.empty() ? nullptr : in_place ? out.data() : in.data();
      piece.output = out.empty() ? nullptr : out.data();
      if (case_.kind == OpKind::kBroadcast && m == case_.root && case_.seed % 3 == 0)
        piece.output = nullptr;
      piece.count = counts.empty() ? size : 0;
      piece.counts = counts;
    }
  }

  double Reduced(const std::vector<std::vector<double>>& values, size_t i) const {
    const auto step = [&](double value, double factor) {
      if (case_.dtype == DType::kBool) return value;
      return IsFloating(case_.dtype) ? value * factor : std::trunc(value * factor);
    };
    double sum = step(values[0][i], case_.prescale);
    for (size_t m = 1; m < values.size(); ++m) {
      const double next = step(values[m][i], case_.prescale);
      switch (case_.op) {
        case ReduceOp::kMin: sum = std::min(sum, next); break;
        case ReduceOp::kMax: sum = std::max(sum, next); break;
        case ReduceOp::kProduct: sum *= next; break;
        default: sum += next;
      }
    }
    // Products wrap in narrow integers before they are scaled: the tests do not scale products.
    return step(step(sum, 1 / case_.divisor), case_.postscale);
  }

  std::vector<double> Expect(int m, const std::vector<int64_t>& counts,
                             const std::vector<std::vector<double>>& values) const {
    const auto n = static_cast<size_t>(case_.members);
    const auto me = static_cast<size_t>(m);
    std::vector<double> result;
    switch (case_.kind) {
      case OpKind::kAllreduce:
        for (size_t i = 0; i < values[0].size(); ++i) result.push_back(Reduced(values, i));
        break;
      case OpKind::kBroadcast: return values[static_cast<size_t>(case_.root)];
      case OpKind::kAllgather:
        for (const auto& part : values) result.insert(result.end(), part.begin(), part.end());
        break;
      case OpKind::kReducescatter: {
        int64_t begin = 0;
        for (size_t i = 0; i < me; ++i) begin += counts[i];
        for (int64_t i = 0; i < counts[me]; ++i)
          result.push_back(Reduced(values, static_cast<size_t>(begin + i)));
        break;
      }
      default:
        for (size_t from = 0; from < n; ++from) {
          int64_t begin = 0;
          for (size_t to = 0; to < me; ++to) begin += counts[from * n + to];
          for (int64_t i = 0; i < counts[from * n + me]; ++i) {
            result.push_back(values[from][static_cast<size_t>(begin + i)]);
          }
        }
    }
    return result;
  }

  const Case case_;
  std::vector<Batch> batches_;
  std::vector<std::vector<Bytes>> inputs_;  // [member][piece]
  std::vector<std::vector<Bytes>> outputs_;
  std::vector<std::vector<Bytes>> expected_;
};

// Runs the cases one after another on all members, without any barrier in between, and checks every
// output.
template <typename World>
void RunCases(World* net, const std::vector<Case>& cases) {
  std::vector<std::unique_ptr<Trial>> trials;
  for (const Case& c : cases) trials.push_back(std::make_unique<Trial>(c));
  const std::vector<Status> statuses = net->Run([&](int member, Communicator* communicator) {
    for (size_t i = 0; i < trials.size(); ++i) {
      auto work = communicator->Start(trials[i]->batch(member));
      Status status = Drive(communicator, work.get());
      if (!status.ok())
        return Status(status.code(), cases[i].ToString() + ": " + status.message(), status.peer());
    }
    return Status::Ok();
  });
  for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status.ToString();
  for (const auto& trial : trials) {
    for (int member = 0; member < net->size(); ++member) ASSERT_EQ(trial->Check(member), "");
  }
}

}  // namespace hvdlite::comm::net_testing
