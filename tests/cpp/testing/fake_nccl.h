// FakeNccl: one test's use of the fake NCCL (tests/fake_gpu): what it commands ends with the test;
// whatever NCCL complained about, and communicators that nobody gave back, fail it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "comm/nccl/library.h"
#include "fake_gpu/fake_nccl.h"
#include "testing/watchdog.h"

namespace hvdlite::testing {

class FakeNccl {
 public:
  static constexpr const char* kLibrary = HVDLITE_FAKE_NCCL;

  FakeNccl() { fake_nccl_reset(); }
  ~FakeNccl() {
    for (const char* wait : {"linger", "hold_abort"}) fake_nccl_set(wait, 0);
    ExpectLeft(0);
    EXPECT_EQ(Complaints(), "");
    fake_nccl_reset();
  }
  FakeNccl(const FakeNccl&) = delete;

  static std::shared_ptr<const comm::nccl::Library> library() {
    std::shared_ptr<const comm::nccl::Library> library;
    const Status status = comm::nccl::Load({kLibrary, ""}, &library);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return library;
  }
  // So many communicators are left. They are given back by threads of their own, for which nobody
  // waits long.
  static void ExpectLeft(long count) {
    const Deadline deadline = Deadline::AfterSeconds(30 * Patience());
    while (fake_nccl_live() > count && !deadline.Passed())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    EXPECT_EQ(fake_nccl_live(), count);
  }
  // What NCCL complained about so far, which is then forgiven.
  static std::string Complaints() {
    std::array<char, 4096> text{};
    fake_nccl_complaints(text.data(), text.size());
    fake_nccl_forgive();
    return text.data();
  }
};

}  // namespace hvdlite::testing
