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
  std::vector<const Request*> pointers;
  for (const Request& request : ready) pointers.push_back(&request);
  return MayWaitForMore(pointers, waited, {.enough = 1000, .longest = kMillisecond});
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
  EXPECT_FALSE(MayWaitForMore({&gradient}, 0, {.enough = 1000, .longest = 0}));
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

}  // namespace
}  // namespace hvdlite::engine
