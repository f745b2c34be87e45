#include "engine/fuse/gather.h"

#include <gtest/gtest.h>

#include <functional>

namespace hvdlite::engine {
namespace {

Request Gradient(int64_t elements) {
  Request request;
  request.kind = OpKind::kAllreduce;
  request.device = DeviceKind::kCuda;
  request.dtype = DType::kFloat32;
  request.shape = {elements};
  return request;
}

bool MayWait(const std::vector<Request>& ready, Nanos waited = 0) {
  Readiness readiness;
  for (const Request& request : ready) readiness.ready.push_back(&request);
  return MayWaitForMore(readiness, waited, {.enough = 1000, .longest = kMillisecond});
}

TEST(Gather, gradients_wait_until_they_are_enough) {
  EXPECT_TRUE(MayWait({Gradient(1)}));
  EXPECT_TRUE(MayWait({Gradient(100), Gradient(149)}));
  EXPECT_FALSE(MayWait({Gradient(100), Gradient(150)}));
  EXPECT_FALSE(MayWait({Gradient(1000)}));
}

TEST(Gather, nothing_waits_longer_than_it_may) {
  EXPECT_TRUE(MayWait({Gradient(1)}, kMillisecond - 1));
  EXPECT_FALSE(MayWait({Gradient(1)}, kMillisecond));
  const Request gradient = Gradient(1);
  EXPECT_FALSE(MayWaitForMore({{&gradient}}, 0, {.enough = 1000, .longest = 0}));
}

TEST(Gather, one_operation_that_somebody_needs_now_ends_the_wait_of_all) {
  const std::vector<std::function<void(Request*)>> changes = {
      [](Request* r) { r->device = DeviceKind::kHost; },
      [](Request* r) { r->kind = OpKind::kBroadcast; },
      [](Request* r) { r->kind = OpKind::kBarrier; },
      [](Request* r) { r->group = 7; },
  };
  for (const auto& change : changes) {
    Request other = Gradient(1);
    change(&other);
    EXPECT_FALSE(MayWait({Gradient(1), other}));
    EXPECT_FALSE(MayWait({other}));
  }
}

TEST(Gather, nothing_waits_for_a_member_that_leaves) {
  const Request gradient = Gradient(1);
  const GatherOptions options{.enough = 1000, .longest = kMillisecond};
  EXPECT_TRUE(MayWaitForMore({{&gradient}, true, false}, 0, options));
  EXPECT_FALSE(MayWaitForMore({{&gradient}, true, true}, 0, options));
}

TEST(Gathering, keeps_while_the_device_is_behind_and_counts_from_the_first) {
  Gathering gathering({.enough = 1000, .longest = 10});
  const Request gradient = Gradient(1);
  const auto keeps = [&](Nanos now, bool behind) {
    return gathering.Keeps({{&gradient}}, now, [behind] { return behind; });
  };
  EXPECT_FALSE(keeps(100, false));
  EXPECT_FALSE(gathering.keeps());
  EXPECT_TRUE(keeps(101, true));
  EXPECT_TRUE(keeps(110, true));
  EXPECT_TRUE(gathering.keeps());
  EXPECT_FALSE(keeps(111, true));
  EXPECT_FALSE(gathering.keeps());
  EXPECT_TRUE(keeps(120, true));
  EXPECT_FALSE(keeps(121, false));
  EXPECT_FALSE(gathering.keeps());
}

}  // namespace
}  // namespace hvdlite::engine
