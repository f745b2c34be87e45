// Generations: an elastic job in one process. Each member is a thread that brings up an engine per
// generation; a driver writes the rolls, kills members, and tells the others or leaves it to their
// engines to notice.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "testing/ranks.h"

namespace hvdlite::testing {

// The store of one generation. The driver may call its rendezvous off.
struct Rendezvous {
  rendezvous::MemoryStore store;
  std::atomic<bool> called_off{false};
  std::atomic<int> arrived{0};
};

// One member's store of the rendezvous. The member dies at its `dies_at`-th request, if it gets
// there.
class Seat final : public rendezvous::Store {
 public:
  Seat(std::shared_ptr<Rendezvous> rendezvous, int size, int dies_at)
      : rendezvous_(std::move(rendezvous)), size_(size), left_(dies_at) {}
  bool dead() const { return dead_; }

  Status Set(const std::string& key, const std::string& value) override {
    HVDLITE_RETURN_IF_ERROR(Request());
    return rendezvous_->store.Set(key, value);
  }
  Status Get(const std::string& key, Deadline deadline, std::string* value) override {
    HVDLITE_RETURN_IF_ERROR(Request());
    return Patiently(deadline,
                     [&](Deadline soon) { return rendezvous_->store.Get(key, soon, value); });
  }
  Status Collect(const std::string& key, int n, Deadline deadline,
                 std::vector<std::string>* values) override {
    HVDLITE_RETURN_IF_ERROR(Request());
    return Patiently(
        deadline, [&](Deadline soon) { return rendezvous_->store.Collect(key, n, soon, values); });
  }
  Status Add(const std::string& key, int64_t amount, int64_t* sum) override {
    HVDLITE_RETURN_IF_ERROR(Request());
    return rendezvous_->store.Add(key, amount, sum);
  }
  Status Delete(const std::string& key) override { return rendezvous_->store.Delete(key); }
  Status Look() override {
    return rendezvous_->called_off ? Status::PeerLost(-1, "the rendezvous was called off")
                                   : Status::Ok();
  }
  Status Arrive(Deadline deadline) override {
    HVDLITE_RETURN_IF_ERROR(Request());
    ++rendezvous_->arrived;
    return Patiently(deadline, [&](Deadline soon) {
      while (rendezvous_->arrived < size_ && !soon.Passed()) usleep(200);
      return rendezvous_->arrived < size_ ? Status::Timeout("not all have arrived") : Status::Ok();
    });
  }
  Status Fail(const Status& why) override {
    rendezvous_->called_off = true;
    return why;
  }

 private:
  Status Request() {
    if (left_-- == 0) {
      dead_ = true;
      return Status::Io("it was killed");
    }
    return Look();
  }
  template <typename Ask>
  Status Patiently(Deadline deadline, Ask ask) {
    while (true) {
      const Status status = ask(Deadline::After(5 * kMillisecond));
      if (status.code() != StatusCode::kTimeout || deadline.Passed()) return status;
      HVDLITE_RETURN_IF_ERROR(Look());
    }
  }

  const std::shared_ptr<Rendezvous> rendezvous_;
  const int size_;
  int left_;
  bool dead_ = false;
};

// When in a generation a member is killed.
enum class Phase { kForming, kIdle, kSubmitted, kMoving, kLeaving };

struct Death {
  int rank = 0;
  Phase phase = Phase::kIdle;
  int request = 0;  // kForming: at which request of its store
};

// One generation of the plan.
struct Chapter {
  std::vector<Death> deaths;
  bool told = true;  // the driver aborts the survivors' engines; else they find out
};

class Generations {
 public:
  Generations(int size, int hosts) : size_(size), hosts_(hosts) {}

  // Lives through the chapters and then one quiet generation. After each the slots of the dead are
  // filled again.
  void Play(std::vector<Chapter> chapters) {
    chapters.emplace_back();
    chapters_ = std::move(chapters);
    const Watchdog watchdog(30.0 + 4.0 * static_cast<double>(chapters_.size()),
                            [this] { return Describe(); });
    std::vector<int> ranks;
    for (int slot = 0; slot < size_; ++slot) ranks.push_back(Newcomer(slot));
    for (size_t i = 0; i < chapters_.size(); ++i) {
      Write(ranks);
      const std::set<int> dead = Gather(ranks);
      std::vector<int> next;
      std::vector<int> slots;
      for (int member : ranks) {
        if (dead.contains(member))
          slots.push_back(slots_.at(member));
        else
          next.push_back(member);
      }
      for (int slot : slots) next.push_back(Newcomer(slot));
      ranks = std::move(next);
      if (::testing::Test::HasFailure()) break;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  static constexpr int kSteps = 4;

  struct Roll {
    uint32_t generation = 0;
    std::vector<int> members;  // in the order of ranks
    Chapter chapter;
    int position = 0;
    std::shared_ptr<Rendezvous> rendezvous;
  };
  struct Report {
    int position = 0;
    bool dead = false;
  };
  // Longer than a message, so that a member can be killed within. They outlive the engine.
  struct Tensors {
    std::vector<float> mine = std::vector<float>(300000);
    std::vector<float> sums = mine;
  };

  // ---- the driver

  int Newcomer(int slot) {
    int member = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      member = static_cast<int>(slots_.size());
      slots_[member] = slot;
    }
    threads_.emplace_back([this, member] { Live(member); });
    return member;
  }

  void Write(const std::vector<int>& ranks) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint32_t generation = roll_.generation + 1;
    int position = 0;
    for (const auto& [member, report] : reports_) {
      if (!report.dead) position = std::max(position, report.position);
    }
    reports_.clear();
    roll_ = {generation, ranks, chapters_[generation - 1], position,
             std::make_shared<Rendezvous>()};
    changed_.notify_all();
  }

  // Returns the dead once every other member has reported.
  std::set<int> Gather(const std::vector<int>& ranks) {
    std::unique_lock<std::mutex> lock(mutex_);
    std::set<int> dead;
    changed_.wait(lock, [&] {
      for (const auto& [member, report] : reports_) {
        if (report.dead && dead.insert(member).second) MournLocked();
      }
      return reports_.size() == ranks.size();
    });
    int least = kSteps * 1000, most = 0;
    for (const auto& [member, report] : reports_) {
      if (report.dead) continue;
      least = std::min(least, report.position);
      most = std::max(most, report.position);
    }
    EXPECT_LE(most - least, 1) << "survivors are more than a step apart";
    return dead;
  }

  void MournLocked() {
    roll_.rendezvous->called_off = true;
    if (!roll_.chapter.told) return;
    for (const auto& [member, engine] : up_)
      engine->Abort(Status::PeerLost(engine->rank(), "the driver has lost a member"));
  }

  std::string Describe() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string text = "generation " + std::to_string(roll_.generation) + " of";
    for (int member : roll_.members) {
      text += " " + std::to_string(member) + (up_.contains(member) ? " (up)" : "") +
              (reports_.contains(member) ? " (has reported)" : "");
    }
    return text;
  }

  // ---- a member

  void Live(int member) {
    uint32_t after = 0;
    while (const std::optional<Roll> roll = Await(member, after)) {
      after = roll->generation;
      if (!Serve(member, *roll)) return;
    }
  }

  std::optional<Roll> Await(int member, uint32_t after) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] {
      const auto& named = roll_.members;
      return over_ || (roll_.generation > after &&
                       std::find(named.begin(), named.end(), member) != named.end());
    });
    return over_ ? std::nullopt : std::optional<Roll>(roll_);
  }

  // Returns whether the member lives on.
  bool Serve(int member, const Roll& roll) {
    const auto found = std::find(roll.members.begin(), roll.members.end(), member);
    const int rank = static_cast<int>(found - roll.members.begin());
    const Death* death = nullptr;
    for (const Death& each : roll.chapter.deaths) {
      if (each.rank == rank) death = &each;
    }
    Seat seat(roll.rendezvous, static_cast<int>(roll.members.size()),
              death != nullptr && death->phase == Phase::kForming ? death->request : -1);
    Tensors tensors;
    std::unique_ptr<Engine> engine;
    int position = roll.position;
    const Status started = Start(member, rank, roll, &seat, &engine);
    if (seat.dead()) return Die(member);
    if (started.ok()) {
      if (!Train(roll, rank, death, engine.get(), &tensors, &position)) {
        Down(member);
        engine.reset();  // without Shutdown: its connections break
        return Die(member);
      }
      Down(member);
      // Whoever is killed meanwhile makes it fail.
      (void)engine->Shutdown(Deadline::AfterSeconds(10 * Patience()));
    } else {
      EXPECT_FALSE(roll.chapter.deaths.empty()) << started.ToString();
    }
    Tell(member, {position, false});
    return true;
  }

  Status Start(int member, int rank, const Roll& roll, Seat* seat,
               std::unique_ptr<Engine>* engine) {
    const int slot = SlotOf(member);
    engine::EngineOptions options;
    options.rank = rank;
    options.size = static_cast<int>(roll.members.size());
    options.store_prefix = "g" + std::to_string(roll.generation) + "/";
    options.generation = roll.generation;
    options.slot = slot;
    options.secret = transport::tcp::SecretOfGeneration({}, roll.generation, "nonce");
    options.config.start_timeout_seconds = 20 * Patience();
    if (hosts_ > 1) options.config.host_id = "pretended-" + std::to_string(slot % hosts_);
    HVDLITE_RETURN_IF_ERROR(Engine::Start(options, seat, engine));
    const std::lock_guard<std::mutex> lock(mutex_);
    up_[member] = engine->get();
    // As Member.entered() of hvdlite/job/membership.py.
    if (roll.rendezvous->called_off && roll.chapter.told)
      (*engine)->Abort(Status::PeerLost(rank, "the driver has lost a member"));
    return Status::Ok();
  }

  // Returns false if the member is killed.
  bool Train(const Roll& roll, int rank, const Death* death, Engine* engine, Tensors* tensors,
             int* position) {
    int sum = 0;
    for (int member : roll.members) sum += member;
    const auto number = static_cast<float>(roll.members[static_cast<size_t>(rank)]);
    for (int step = 0; step < kSteps; ++step) {
      const auto dies = [&](Phase phase) {
        return death != nullptr && death->phase == phase && step == kSteps / 2;
      };
      if (dies(Phase::kIdle)) return false;
      std::vector<float>& mine = tensors->mine;
      std::fill(mine.begin(), mine.end(), number + static_cast<float>(*position));
      HandlePtr handle;
      Status status =
          engine->Submit(0, Allreduce("x", mine, &tensors->sums), /*will_wait=*/false, &handle);
      if (dies(Phase::kSubmitted)) return false;
      if (status.ok() && dies(Phase::kMoving)) {
        (void)engine->Wait(*handle, 100 * kMicrosecond);
        return false;
      }
      while (status.ok() && !engine->Wait(*handle, 10 * kMillisecond)) {
      }
      if (status.ok()) status = handle->status();
      if (!status.ok()) {
        EXPECT_FALSE(roll.chapter.deaths.empty()) << status.ToString();
        EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.ToString();
        return true;
      }
      const auto expected =
          static_cast<float>(sum + *position * static_cast<int>(roll.members.size()));
      EXPECT_EQ(tensors->sums.front(), expected);
      EXPECT_EQ(tensors->sums.back(), expected);
      ++*position;
    }
    return death == nullptr || death->phase != Phase::kLeaving;
  }

  bool Die(int member) {
    Tell(member, {0, true});
    return false;
  }

  void Down(int member) {
    const std::lock_guard<std::mutex> lock(mutex_);
    up_.erase(member);
  }

  void Tell(int member, Report report) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      reports_[member] = report;
    }
    changed_.notify_all();
  }

  int SlotOf(int member) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return slots_.at(member);
  }

  const int size_;
  const int hosts_;
  std::vector<Chapter> chapters_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Roll roll_;
  std::map<int, Report> reports_;
  std::map<int, Engine*> up_;  // which the driver may abort
  std::map<int, int> slots_;
  bool over_ = false;
};

}  // namespace hvdlite::testing
