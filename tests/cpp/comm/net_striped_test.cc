// Every collective over several lanes between each two members: the results are the same, and no
// member sleeps for bytes that never come.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "net_case.h"
#include "transport/striped.h"

namespace hvdlite::comm::net_testing::striped_testing {
namespace {

// The links of a NetWorld, each over `lanes` socket pairs with faults.
class Stripes {
 public:
  Stripes(int size, size_t lanes, Faults faults, bool checked) {
    for (size_t i = 0; i < lanes; ++i) {
      layers_.push_back(SocketPairLinks(size));
      // The lanes differ: the last one moves the least at a time.
      if (faults.most < SIZE_MAX) faults.most = faults.most / (i + 1) + 1;
      faults.seed += 7;
      AddFaults(faults, &layers_.back());
      if (checked) AddChecks(&layers_.back());
    }
  }

  Links Take() {
    const size_t size = layers_[0].size();
    Links links(size);
    for (size_t i = 0; i < size; ++i) {
      links[i].resize(size);
      for (size_t j = 0; j < size; ++j) {
        if (i == j) continue;
        std::vector<transport::Transport*> lanes;
        for (Links& layer : layers_) lanes.push_back(layer[i][j].get());
        std::vector<transport::Traffic*> traffic(lanes.size(), &traffic_);
        links[i][j] = std::make_unique<transport::Striped>(std::move(lanes), std::move(traffic));
      }
    }
    return links;
  }
  const transport::Traffic& traffic() const { return traffic_; }

 private:
  std::vector<Links> layers_;
  transport::Traffic traffic_;
};

net::Options SmallPieces() {
  net::Options options;
  options.piece_bytes = 1 << 10;
  options.scratch_bytes = 16 << 10;
  return options;
}

class NetStriped : public ::testing::TestWithParam<int> {};

TEST_P(NetStriped, every_collective_matches_the_reference) {
  for (const bool checked : {false, true}) {
    Stripes stripes(GetParam(), 2 + checked, {.seed = 5, .stall = 0.3, .most = 700, .nap = 0.02},
                    checked);
    NetWorld net(stripes.Take(), SmallPieces(), {});
    RunCases(&net, EveryKindDtypeAndShape(GetParam()));
    EXPECT_EQ(stripes.traffic().sent, stripes.traffic().received);
    EXPECT_GT(stripes.traffic().sent, 0u);
  }
}

TEST_P(NetStriped, large_pieces_match_the_reference_without_faults) {
  Stripes stripes(GetParam(), 2, {}, true);
  NetWorld net(stripes.Take(), {}, {});
  std::vector<Case> cases;
  for (const OpKind kind : {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kBroadcast}) {
    Case c;
    c.kind = kind;
    c.dtype = DType::kInt32;
    c.members = GetParam();
    c.sizes = {1000000, 3, 70001};
    c.seed = 3;
    cases.push_back(c);
  }
  RunCases(&net, cases);
}

INSTANTIATE_TEST_SUITE_P(Members, NetStriped, ::testing::Values(2, 3, 5));

}  // namespace
}  // namespace hvdlite::comm::net_testing::striped_testing
