// Every collective against the plain reference: kinds, dtypes, sizes, members, pieces, roots,
// uneven counts, forced algorithms, over links that stall and cut at random.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "net_case.h"
#include "testing/tier.h"

namespace hvdlite::comm::net_testing {
namespace {

// Pieces small enough that even short tensors take many of them and every slot wraps.
net::Options SmallPieces(std::optional<Algorithm> force = std::nullopt) {
  net::Options options;
  options.piece_bytes = 1 << 10;
  options.scratch_bytes = 16 << 10;
  options.force = force;
  return options;
}

Faults Weather(uint32_t seed) {
  Faults faults;
  faults.seed = seed;
  faults.stall = 0.3;
  faults.most = 700;
  faults.nap = 0.02;
  return faults;
}

// Half of them with check words, as between machines.
struct Neighbourhood {
  int members;
  bool checked;
};

class NetProperty : public ::testing::TestWithParam<Neighbourhood> {
 protected:
  NetWorld World(net::Options options, Faults faults = {}) const {
    return NetWorld(GetParam().members, options, faults, GetParam().checked);
  }
};

TEST_P(NetProperty, EveryKindDtypeAndShapeMatchesTheReference) {
  const int members = GetParam().members;
  NetWorld net = World(SmallPieces(), Weather(77));
  RunCases(&net, EveryKindDtypeAndShape(members));
}

TEST_P(NetProperty, EveryAllreduceAlgorithmOpAndScaleMatchesTheReference) {
  const int members = GetParam().members;
  for (Algorithm algorithm : {Algorithm::kOneShot, Algorithm::kDirect, Algorithm::kGather}) {
    NetWorld net = World(SmallPieces(algorithm), Weather(78));
    RunCases(&net, EveryReductionAndScale(members));
  }
}

TEST_P(NetProperty, EveryAlgorithmOfGatherAndBroadcastMatchesTheReference) {
  const int members = GetParam().members;
  for (Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kPairwise, Algorithm::kTree, Algorithm::kChain}) {
    NetWorld net = World(SmallPieces(algorithm), Weather(79));
    std::vector<Case> cases;
    uint32_t seed = 1;
    for (OpKind kind : {OpKind::kAllgather, OpKind::kBroadcast}) {
      for (int root = 0; root < members; ++root) {
        for (const auto& sizes : Shapes()) {
          Case c;
          c.kind = kind;
          c.dtype = DType::kInt16;
          c.members = members;
          c.sizes = sizes;
          c.seed = ++seed;
          c.root = root;
          c.in_place = seed % 2 == 0;
          cases.push_back(c);
        }
      }
    }
    RunCases(&net, cases);
  }
}

TEST_P(NetProperty, TwoHundredMixedOperationsFollowOneAnotherWithoutABarrier) {
  const int members = GetParam().members;
  NetWorld net = World(net::Options{}, Weather(80));
  RunCases(&net, Mixed(members, 200, 2000));
}

TEST_P(NetProperty, LargeTensorsWithDefaultOptionsMatchTheReference) {
  const int members = GetParam().members;
  const auto run = [&](OpKind kind, DType dtype, std::optional<Algorithm> force) {
    Case c;
    c.kind = kind;
    c.dtype = dtype;
    c.members = members;
    c.sizes = {400001 / members, 3, 77777 / members};
    c.root = members - 1;
    net::Options options;
    options.force = force;
    NetWorld net = World(options);
    RunCases(&net, {c});
  };
  for (Algorithm algorithm : {Algorithm::kOneShot, Algorithm::kDirect, Algorithm::kGather}) {
    run(OpKind::kAllreduce, DType::kFloat32, algorithm);
  }
  for (OpKind kind : kKinds) run(kind, DType::kFloat16, std::nullopt);
  run(OpKind::kAllgather, DType::kInt64, Algorithm::kRing);
  run(OpKind::kBroadcast, DType::kInt64, Algorithm::kTree);
  run(OpKind::kBroadcast, DType::kInt64, Algorithm::kChain);
}

INSTANTIATE_TEST_SUITE_P(Members, NetProperty,
                         ::testing::ValuesIn(testing::InTier<Neighbourhood>(
                             {{2, true}, {3, false}, {5, true}},
                             {{1, true}, {2, false}, {3, true}, {4, true}, {8, false}})),
                         [](const auto& among) {
                           return std::to_string(among.param.members) +
                                  (among.param.checked ? "Checked" : "");
                         });

}  // namespace
}  // namespace hvdlite::comm::net_testing
