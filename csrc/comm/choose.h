// Choose: selects the algorithm of a collective. DECIDES: pure arithmetic, no I/O, no clock.
//
// The α-β-γ model predicts each candidate's time; the cheapest legal candidate wins (ties: the
// earlier in the enumeration). All members must ask with the same question *and the same
// constants*; otherwise they would run different algorithms against each other. Ranks that measure
// constants must first agree on one set. No choice changes a bit: every legal algorithm sums in the
// order of members and rounds once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/ops.h"
#include "comm/batch.h"

namespace hvdlite::comm {

// M: bytes of the tensor on one rank; n: members. Steps and bytes are those of the busiest member.
enum class Algorithm : uint8_t {
  kOneShot,        // allreduce: each member sends all to all, and sums   1 step,   (n-1) M
  kDirect,         // allreduce, reducescatter: to the owner, which sums  2 steps,  2 (n-1)/n M
  kGather,         // allreduce: gather all in doubling stretches, sum    log n,    (n-1) M
  kRing,           // allgather: round the ring                           n-1,      sum of blocks
  kPairwise,       // alltoall, allgather: own block straight to each     1 step,   sum of blocks
  kTree,           // broadcast: binomial                                 log n,    M log n
  kChain,          // broadcast: one after another, cut-through           n-1,      M
  kDissemination,  // barrier                                             log n,    -
  kAdasum,         // allreduce by Adasum: halving, doubling distance     log² n,   2 (n-1)/n M
};
constexpr int kAlgorithmCount = 9;

constexpr std::string_view Name(Algorithm algorithm) {
  constexpr std::string_view names[kAlgorithmCount] = {"one-shot", "direct",        "gather",
                                                       "ring",     "pairwise",      "tree",
                                                       "chain",    "dissemination", "adasum"};
  return names[static_cast<int>(algorithm)];
}

// Empty for any other text.
constexpr std::optional<Algorithm> AlgorithmNamed(std::string_view name) {
  for (int i = 0; i < kAlgorithmCount; ++i) {
    if (Name(static_cast<Algorithm>(i)) == name) return static_cast<Algorithm>(i);
  }
  return std::nullopt;
}

// Times in seconds. The defaults were measured over loopback TCP between spinning ranks. A
// data-centre network of 25 to 100 Gbit/s is within a factor of three of them, and the sizes at
// which one algorithm overtakes another differ little.
struct CostModel {
  double alpha = 12e-6;  // one step: from TrySend() here to data in TryReceive() there
  // one message: the system calls of both ends; these do not overlap on one member
  double overhead = 3e-6;
  double beta = 0.30e-9;   // one byte through a link, both directions busy
  double gamma = 0.03e-9;  // one byte summed
};

struct Question {
  OpKind op = OpKind::kAllreduce;
  DType dtype = DType::kFloat32;
  bool adasum = false;
  // Allreduce, Broadcast: the bytes of the batch. Allgather, Reducescatter, Alltoall: of all
  // blocks.
  int64_t bytes = 0;
  int members = 1;
  // The number of a host's members that share one network card. 1: each has a path of its own (or
  // all are on one host). It slows only algorithms in which all members talk to all; a ring crosses
  // each card once.
  int members_per_card = 1;
};

Question QuestionOf(const Batch& batch, int members);

struct Choice {
  Algorithm algorithm = Algorithm::kDirect;
  double seconds = 0;    // predicted
  bool forced = false;   // by an option, not by its time
  bool only_one = true;  // no other algorithm was legal
  Algorithm runner_up = Algorithm::kDirect;
  double runner_up_seconds = 0;
};

// The most bytes of all members together that a gather may hold.
constexpr int64_t kGatherMaxBytes = 4 << 20;

// Whether `algorithm` performs this collective correctly.
bool IsLegal(const Question& question, Algorithm algorithm);
// The predicted time of a legal algorithm.
double PredictSeconds(const Question& question, Algorithm algorithm, const CostModel& model);
Choice Choose(const Question& question, const CostModel& model);
// The choice as a sentence: "ring: 4 MiB among 16 members, 2.9 ms predicted (direct: 5.1 ms)".
std::string Why(const Question& question, const Choice& choice);

}  // namespace hvdlite::comm
