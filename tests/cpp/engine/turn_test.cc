// Turn: no wake-up is lost. A tick, which would make a lost one good, comes once an hour here, so
// that a lost wake-up hangs until the watchdog ends the test.
#include "engine/turn.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <thread>

#include "testing/tier.h"
#include "testing/watchdog.h"

namespace hvdlite::engine {
namespace {

constexpr Nanos kHour = 3600 * kSecond;
constexpr int kSeconds = 120;

// Stands for the engine: operations are done in the order of their submission, each after a peer
// has said so.
class Desk final : public Turn::Worker {
 public:
  explicit Desk(Turn* turn) : turn_(*turn) {}

  // ---- a user thread
  HandlePtr Submit(bool will_wait, Completion completion = {}, bool patient = false) {
    const bool told = static_cast<bool>(completion.done);
    auto handle = std::make_shared<Handle>(std::move(completion), patient);
    turn_.Opened(*handle);
    {
      MutexLock lock(mutex_);
      submitted_.push_back(handle);
    }
    turn_.Submitted(will_wait || patient, told);
    return handle;
  }
  // ---- the peer, which rings afterwards
  void Allow() { allowed_.fetch_add(1, std::memory_order_seq_cst); }
  void AllowEverything() { allowed_ = 1 << 30; }
  void End() { end_ = true; }

  // ---- the holder of the turn
  bool Cycle() override {
    EXPECT_EQ(inside_.fetch_add(1), 0) << "two threads hold the turn";
    {
      MutexLock lock(mutex_);
      for (; !submitted_.empty(); submitted_.pop_front()) pending_.push_back(submitted_.front());
    }
    bool moved = false;
    for (; !pending_.empty() && allowed_.load(std::memory_order_seq_cst) > 0; moved = true) {
      allowed_.fetch_sub(1, std::memory_order_seq_cst);
      const HandlePtr handle = std::move(pending_.front());
      pending_.pop_front();
      turn_.Closing(*handle);
      handle->Complete(Status::Ok());
      turn_.Done(handle);
    }
    if (end_) ended_ = true;
    inside_.fetch_sub(1);
    return moved;
  }
  bool ended() const override { return ended_; }
  Transfers transfers() const override {
    return pending_.empty() ? Transfers::kNone : Transfers::kQuick;
  }
  Nanos PrepareSleep(Nanos, std::vector<pollfd>*) override { return kHour; }

 private:
  Turn& turn_;
  Mutex mutex_;
  std::deque<HandlePtr> submitted_ GUARDED_BY(mutex_);
  std::deque<HandlePtr> pending_;
  std::atomic<int> allowed_{0};
  std::atomic<int> inside_{0};
  std::atomic<bool> end_{false};
  std::atomic<bool> ended_{false};
};

struct Way {
  bool eventfd;
  bool oversubscribed;
  Nanos jitter;
};

void PrintTo(const Way& way, std::ostream* out) {
  *out << (way.eventfd ? "eventfd" : "futex") << (way.oversubscribed ? " oversubscribed" : "")
       << (way.jitter > 0 ? " with jitter" : "");
}

class TurnTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(transport::shm::HostSegment::Create(2, &segment_).ok());
    for (int r = 0; GetParam().eventfd && r < 2; ++r)
      eventfds_.push_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    bells_ = std::make_unique<transport::shm::Doorbells>(segment_.get(), 0, eventfds_);
    peer_ = std::make_unique<transport::shm::Doorbells>(segment_.get(), 1, eventfds_);
    options_.oversubscribed = GetParam().oversubscribed;
    options_.tick_every = kHour;
  }
  void TearDown() override {
    turn_.Stop();
    for (int fd : eventfds_) close(fd);
  }
  void Open() {
    turn_.Open(bells_.get(), options_);
    ASSERT_TRUE(turn_.Start(-1).ok());
  }
  // The peer's news.
  void Allow() {
    desk_.Allow();
    peer_->Ring(0);
  }
  void Poll(const HandlePtr& handle) {
    while (!handle->done()) sched_yield();
  }

  testing::Watchdog watchdog_{kSeconds};
  std::unique_ptr<transport::shm::HostSegment> segment_;
  std::vector<int> eventfds_;
  std::unique_ptr<transport::shm::Doorbells> bells_, peer_;
  Turn::Options options_;
  const Jitter jitter_{GetParam().jitter, 1};
  const Jitter peers_jitter_{GetParam().jitter * 4, 2};
  Turn turn_{&desk_, &jitter_};
  Desk desk_{&turn_};
  const int rounds_ = GetParam().jitter > 0 ? 300 : 3000;
};

TEST_P(TurnTest, every_waiter_hears_of_its_result) {
  Open();
  constexpr int kThreads = 3;
  std::vector<std::thread> users;
  for (int t = 0; t < kThreads; ++t) {
    users.emplace_back([this] {
      for (int i = 0; i < rounds_; ++i) {
        const HandlePtr handle = desk_.Submit(/*will_wait=*/true);
        while (!turn_.Wait(*handle, kForever)) {
        }
      }
    });
  }
  for (int i = 0; i < kThreads * rounds_; ++i) {
    peers_jitter_();
    Allow();
  }
  for (std::thread& user : users) user.join();
}

TEST_P(TurnTest, the_background_thread_carries_out_what_no_thread_waits_for) {
  Open();
  for (int i = 0; i < rounds_; ++i) {
    const HandlePtr handle = desk_.Submit(/*will_wait=*/false);
    peers_jitter_();
    Allow();
    Poll(handle);
  }
}

TEST_P(TurnTest, the_last_waiter_leaves_the_rest_to_the_background_thread) {
  Open();
  for (int i = 0; i < rounds_; ++i) {
    const HandlePtr first = desk_.Submit(/*will_wait=*/true);
    const HandlePtr second = desk_.Submit(/*will_wait=*/false);
    std::thread peer([this] {
      Allow();
      peers_jitter_();
      Allow();
    });
    while (!turn_.Wait(*first, kForever)) {
    }
    Poll(second);
    peer.join();
  }
}

TEST_P(TurnTest, a_callback_may_submit_the_next_operation) {
  Open();
  std::atomic<int> told{0};
  Completion completion;
  completion.done = [&](const Handle&) {
    if (told.fetch_add(1) + 1 < rounds_) desk_.Submit(/*will_wait=*/false, completion);
  };
  desk_.Submit(/*will_wait=*/false, completion);
  for (int i = 0; i < rounds_; ++i) {
    peers_jitter_();
    Allow();
  }
  while (told < rounds_) sched_yield();
}

TEST_P(TurnTest, a_driver_that_waits_for_news_gives_way) {
  Open();
  const HandlePtr handle = desk_.Submit(/*will_wait=*/true);
  std::thread user([&] {
    while (!turn_.Wait(*handle, kForever)) {
    }
  });
  for (int i = 0; i < rounds_; ++i) {
    peers_jitter_();
    turn_.Take();
    EXPECT_FALSE(handle->done());
    turn_.Return();
  }
  Allow();
  user.join();
}

TEST_P(TurnTest, a_wait_ends_with_its_slice) {
  Open();
  const HandlePtr handle = desk_.Submit(/*will_wait=*/true);
  EXPECT_FALSE(turn_.Wait(*handle, kMillisecond));
  Allow();
  EXPECT_TRUE(turn_.Wait(*handle, kHour));
}

TEST_P(TurnTest, a_patient_operation_waits_for_its_waiter) {
  options_.leave_to_waiters = true;
  Open();
  desk_.AllowEverything();
  for (int i = 0; i < rounds_; ++i) {
    const HandlePtr patient = desk_.Submit(/*will_wait=*/false, {}, /*patient=*/true);
    while (!turn_.Wait(*patient, kForever)) {
    }
  }
  EXPECT_EQ(turn_.background_wakes(), 0u);
  // With one that is not, the background thread carries out both.
  const HandlePtr patient = desk_.Submit(/*will_wait=*/false, {}, /*patient=*/true);
  Poll(desk_.Submit(/*will_wait=*/false));
  EXPECT_TRUE(patient->done());
}

TEST_P(TurnTest, the_thread_that_shuts_down_hears_the_end) {
  Open();
  std::thread peer([this] {
    peers_jitter_();
    desk_.End();
    peer_->Ring(0);
  });
  turn_.DriveToTheEnd(Deadline::Never());
  EXPECT_TRUE(desk_.ended());
  peer.join();
}

TEST_P(TurnTest, the_background_thread_stops_at_once) {
  options_.tick_every = 20 * kSecond;
  for (int i = 0; i < 50; ++i) {
    Turn turn(&desk_, &jitter_);
    turn.Open(bells_.get(), options_);
    ASSERT_TRUE(turn.Start(-1).ok());
    peers_jitter_();
    const Nanos begun = MonotonicNow();
    turn.Stop();
    ASSERT_LT(MonotonicNow() - begun, options_.tick_every) << "it has slept to the next tick";
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, TurnTest,
                         ::testing::Values(Way{false, false, 0}, Way{false, true, 0},
                                           Way{true, false, 0},
                                           Way{false, false, 100 * kMicrosecond},
                                           Way{true, true, 100 * kMicrosecond}));

}  // namespace
}  // namespace hvdlite::engine
