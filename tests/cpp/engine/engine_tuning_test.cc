// Autotuning among ranks: all change the setting between the same two operations, and no result
// differs.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "engine/job.h"
#include "engine/negotiate/tree.h"
#include "engine/tune/tuning.h"
#include "testing/in_threads.h"
#include "testing/ranks.h"
#include "testing/report.h"
#include "testing/says.h"

namespace hvdlite::testing {
namespace {

class EngineTuning : public ::testing::TestWithParam<Job> {
 protected:
  static RanksOptions Options() {
    RanksOptions options{.size = GetParam().ranks, .hosts = GetParam().hosts, .limit_seconds = 120};
    options.config.autotune = true;
    options.config.autotune_warmup_samples = 1;
    options.config.autotune_steps_per_sample = 1;
    options.config.autotune_sample_ms = 0;
    return options;
  }
};

// The sums of floats that differ in size, so that another order of adding gives other bits.
std::vector<float> Input(int rank, int step, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const auto x = static_cast<float>((i * 7 + static_cast<size_t>(step)) % 1000);
    values[i] = (rank % 2 == 0 ? 1e6F : 1e-3F) * (x + static_cast<float>(rank) / 3);
  }
  return values;
}

TEST_P(EngineTuning, all_ranks_change_at_the_same_operation_and_no_bit_changes) {
  const int n = GetParam().ranks;
  std::vector<std::vector<int64_t>> changes(static_cast<size_t>(n));
  RunRanks(Options(), [&](Rank& me) {
    std::vector<int64_t>& mine = changes[static_cast<size_t>(me.rank)];
    const std::vector<size_t> sizes = {100, 20000, 150000};
    std::vector<std::vector<float>> first(sizes.size());
    // As many steps on all ranks: rank 0 tells how far the search is.
    std::vector<int64_t> enough(1, 0);
    for (int step = 0; enough[0] == 0; ++step) {
      ASSERT_LT(step, 20000);
      for (size_t i = 0; i < sizes.size(); ++i) {
        std::vector<float> x = Input(me.rank, 0, sizes[i]);
        ASSERT_TRUE(me.Do(Allreduce("x" + std::to_string(i), x, &x)).ok());
        if (step == 0) first[i] = x;
        ASSERT_EQ(x, first[i]) << "step " << step;
        const std::string report = me.engine->Metrics();
        const int64_t at = NumberIn(report, "last_change_at_batch");
        if (mine.empty() || mine.back() != at) mine.push_back(at);
      }
      enough[0] = me.rank == 0 && mine.size() > 60 ? 1 : 0;
      ASSERT_TRUE(me.Do(Broadcast("enough", &enough, 0)).ok());
    }
  });
  // A rank may have read the metrics of its last step behind a change, and another rank before it.
  size_t length = changes[0].size();
  for (const std::vector<int64_t>& of_rank : changes) length = std::min(length, of_rank.size());
  ASSERT_GE(length, 60u);
  for (std::vector<int64_t>& of_rank : changes) {
    of_rank.resize(length);
    EXPECT_EQ(of_rank, changes[0]);
  }
}

TEST_P(EngineTuning, operations_in_flight_and_other_sets_do_not_mind) {
  RanksOptions options = Options();
  const int n = options.size;
  for (int r = 0; r < n; ++r) options.process_sets.push_back({r, (r + 1) % n});
  RunRanks(options, [n](Rank& me) {
    for (int step = 0; step < 300; ++step) {
      std::vector<std::vector<int64_t>> values;
      std::vector<HandlePtr> handles;
      for (int i = 0; i < 8; ++i) values.emplace_back(static_cast<size_t>(1 + i * 3000), me.rank);
      for (int i = 0; i < 8; ++i) {
        auto& x = values[static_cast<size_t>(i)];
        handles.push_back(me.Submit(Allreduce("g" + std::to_string(i), x, &x)));
      }
      std::vector<int64_t> left(5000, 1), right(5000, 1);
      const int number = (me.rank + n - 1) % n + 1;
      handles.push_back(me.Submit(Allreduce("s", right, &right), me.rank + 1));
      handles.push_back(me.Submit(Allreduce("s", left, &left), number));
      for (const HandlePtr& handle : handles) ASSERT_TRUE(me.Wait(handle).ok());
      for (const auto& x : values) ASSERT_EQ(x.back(), n * (n - 1) / 2);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Jobs, EngineTuning,
                         ::testing::Values(Job{2, 1}, Job{3, 1}, Job{3, 3}, Job{4, 2}));

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(EngineTuningFiles, the_log_is_a_table_and_the_result_is_used_again) {
  const std::string log = ::testing::TempDir() + "autotune-" + std::to_string(getpid()) + ".csv";
  const std::string saved = log + ".saved";
  RanksOptions options{.size = 2};
  options.config.autotune = true;
  options.config.autotune_steps_per_sample = 1;
  options.config.autotune_sample_ms = 0;
  options.config.autotune_log = log;
  options.config.autotune_file = saved;
  const auto play = [](Rank& me) {
    for (int step = 0; step < 200; ++step) {
      std::vector<float> x(1000, 1);
      ASSERT_TRUE(me.Do(Allreduce("x", x, &x)).ok());
    }
  };
  RunRanks(options, play);
  const std::string table = ReadFile(log);
  EXPECT_EQ(table.substr(0, 23), "hierarchical_allreduce,");
  EXPECT_TRUE(Says(table, "\n0,0,0,1,1,128,"));
  EXPECT_TRUE(Says(table, ",warmup\n"));
  ASSERT_GT(table.size(), 6u);
  EXPECT_EQ(table.substr(table.size() - 6), ",best\n");
  std::string why;
  EXPECT_TRUE(engine::ReadSaved(ReadFile(saved), {2, 1}, &why).has_value()) << why;

  engine::Setting chosen;
  chosen.at(engine::Dial::kWindow) = 3;
  std::ofstream(saved) << engine::SavedText(chosen, {2, 1}, Config());
  options.config.autotune_warmup_samples = 1000000;  // it stays with what it begins with
  RunRanks(options, [&play](Rank& me) {
    play(me);
    EXPECT_EQ(NumberIn(me.engine->Metrics(), "cycle_time_ms"), 8);
  });
  unlink(log.c_str());
  unlink(saved.c_str());
}

TEST(EngineTuningFiles, a_wrong_name_to_keep_is_refused) {
  RanksOptions options{.size = 2};
  options.config.autotune = true;
  options.config.autotune_keep = "speed";
  rendezvous::MemoryStore store;
  InThreads(2, [&options, &store](int rank) {
    std::unique_ptr<Engine> engine;
    const Status started = StartEngine(options, rank, "job/", &store, &engine);
    EXPECT_TRUE(Says(started, "HVDLITE_AUTOTUNE_KEEP"));
  });
}

TEST(DialsOf, follow_what_carries_tensors) {
  using engine::Dial;
  struct Row {
    const char* communicator;
    bool mpi;
    std::vector<Dial> open;
  };
  const Row rows[] = {
      {"shm", false, {Dial::kWindow, Dial::kFusion, Dial::kSmall, Dial::kChunk}},
      {"net", false, {Dial::kWindow, Dial::kFusion, Dial::kByteCost}},
      {"hierarchical", false, {Dial::kWindow, Dial::kFusion, Dial::kByteCost, Dial::kChunk}},
      {"hierarchical", true, {Dial::kWindow, Dial::kFusion, Dial::kChunk}},
      {"mpi", true, {Dial::kWindow, Dial::kFusion}},
  };
  for (const Row& row : rows) {
    std::vector<Dial> open;
    const engine::DialRanges ranges = engine::DialsOf(Config(), row.communicator, row.mpi);
    for (int d = 0; d < engine::kDialCount; ++d) {
      if (!ranges[static_cast<size_t>(d)].fixed()) open.push_back(static_cast<Dial>(d));
    }
    EXPECT_EQ(open, row.open) << row.communicator;
  }
  Config config;
  config.cycle_time = 0;
  config.fusion_threshold = 0;
  const engine::DialRanges ranges = engine::DialsOf(config, "mpi", true);
  for (const engine::DialRange& range : ranges) EXPECT_TRUE(range.fixed());
}

TEST(EngineTuningWire, a_setting_keeps_its_place_among_the_decisions) {
  engine::Tree tree(7, 2, 100);
  for (int round = 0; round < 3; ++round) {
    for (int m = 0; m < tree.size(); ++m) ASSERT_TRUE(tree[m].Ask(engine::Sum("before")).ok());
    tree.Settle();
    std::vector<engine::Decision> mine;
    tree[0].agreement->Tell(engine::Down::kTune, engine::Setting().Pack(), &mine);
    ASSERT_EQ(mine.size(), 1u);
    tree[0].Hear(mine[0]);
    for (int m = 0; m < tree.size(); ++m) ASSERT_TRUE(tree[m].Ask(engine::Sum("after")).ok());
    tree.Settle();
    ASSERT_EQ(tree[0].history.size(), static_cast<size_t>(3 * (round + 1)));
    tree.ExpectEqualHistories();
  }
}

}  // namespace
}  // namespace hvdlite::testing
