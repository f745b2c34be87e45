// An elastic job: engines that break and are made anew, in one generation after another, with a
// death at every phase of one.
#include "testing/generations.h"

#include <cmath>
#include <random>

#include "testing/in_threads.h"
#include "testing/says.h"
#include "testing/tier.h"

namespace hvdlite::testing {
namespace {

constexpr int kSize = 4;

struct Case {
  const char* name;
  Phase phase;
  int request = 0;
};

// The requests of a rank on the first host: it tells of itself, hears of the others, tells where
// its host meets, tells where it listens (several hosts), hears where the others listen, arrives.
const Case kCases[] = {
    {"never_comes", Phase::kForming, 0},      {"has_told_of_itself", Phase::kForming, 1},
    {"knows_the_others", Phase::kForming, 2}, {"knows_its_host", Phase::kForming, 3},
    {"listens", Phase::kForming, 4},          {"is_connected", Phase::kForming, 5},
    {"between_operations", Phase::kIdle},     {"has_submitted", Phase::kSubmitted},
    {"in_an_operation", Phase::kMoving},      {"while_the_others_leave", Phase::kLeaving},
};

class EngineGenerations : public ::testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(EngineGenerations, survivors_go_on_with_a_newcomer_after_a_death) {
  const auto& [when, hosts] = GetParam();
  std::vector<Chapter> chapters;
  for (bool told : {true, false}) {
    for (int rank : {0, 1, kSize - 1}) {
      chapters.push_back({{{rank, when.phase, when.request}}, told});
      chapters.emplace_back();  // a generation that ends at a boundary
    }
  }
  Generations(kSize, hosts).Play(chapters);
}

INSTANTIATE_TEST_SUITE_P(All, EngineGenerations,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values(1, 2, kSize)),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param).name) + "_on_" +
                                  std::to_string(std::get<1>(each.param)) + "_hosts";
                         });

TEST(EngineGenerationsAtRandom, any_deaths_leave_survivors_that_go_on) {
  for (int hosts : InTier<int>({2}, {1, 3})) {
    std::mt19937 random(static_cast<uint32_t>(hosts));
    std::vector<Chapter> chapters(InTier<int>({8}, {40}).back());
    for (Chapter& chapter : chapters) {
      chapter.told = random() % 3 != 0;
      for (int rank = 0; rank < kSize; ++rank) {
        const Case& when = kCases[random() % std::size(kCases)];
        if (chapter.deaths.size() + 1 < kSize && random() % 4 == 0)
          chapter.deaths.push_back({rank, when.phase, when.request});
      }
    }
    Generations(kSize, hosts).Play(chapters);
  }
}

engine::EngineOptions Options(int rank, int size, uint32_t generation) {
  engine::EngineOptions options;
  options.rank = rank;
  options.size = size;
  options.store_prefix = "job/";
  options.generation = generation;
  options.secret = transport::tcp::SecretOfGeneration({}, generation, "nonce");
  return options;
}

// Each rank plays in a thread of its own, and its engine ends with it.
void Play(std::vector<engine::EngineOptions> options,
          const std::function<void(const Status&, Engine*)>& play) {
  const Watchdog watchdog(60);
  rendezvous::MemoryStore store;
  InThreads(options.size(), [&](size_t i) {
    std::unique_ptr<Engine> engine;
    const Status started = Engine::Start(options[i], &store, &engine);
    play(started, engine.get());
    if (engine != nullptr) (void)engine->Shutdown(Deadline::AfterSeconds(10 * Patience()));
  });
}

TEST(EngineGeneration, a_rank_that_is_left_behind_gets_no_link_and_both_generations_are_named) {
  std::vector<engine::EngineOptions> options = {Options(0, 2, 7), Options(1, 2, 6)};
  for (auto& each : options) {
    each.config.host_id = "pretended-" + std::to_string(each.rank);
    each.config.start_timeout_seconds = 2 * Patience();  // the other one waits that long
  }
  std::string said;
  std::mutex mutex;
  Play(options, [&](const Status& started, Engine*) {
    EXPECT_FALSE(started.ok());
    const std::lock_guard<std::mutex> lock(mutex);
    said += started.message();
  });
  EXPECT_TRUE(Says(said, "is in generation 7 of its job, but this rank is in generation 6"));
}

TEST(EngineGeneration, a_rank_of_another_generation_does_not_meet_those_of_its_host) {
  std::vector<engine::EngineOptions> options = {Options(0, 2, 7), Options(1, 2, 6)};
  for (auto& each : options) each.config.start_timeout_seconds = 2;
  Play(options, [](const Status& started, Engine*) { EXPECT_FALSE(started.ok()); });
}

TEST(EngineGeneration, the_end_of_one_is_told_as_such_and_not_as_the_jobs) {
  for (uint32_t generation : {0u, 3u}) {
    ::testing::internal::CaptureStderr();
    Play({Options(0, 2, generation), Options(1, 2, generation)},
         [](const Status& started, Engine* engine) {
           ASSERT_TRUE(started.ok()) << started.ToString();
           if (engine->rank() == 0)
             engine->Abort(Status::PeerLost(0, "hvdliterun has lost member 8 (rank 1)"));
           while (!engine->life().ended()) usleep(1000);
         });
    const std::string log = ::testing::internal::GetCapturedStderr();
    const bool of_job = log.find("error: the job has failed: ") != std::string::npos;
    EXPECT_EQ(of_job, generation == 0) << log;
    const bool of_generation =
        log.find("warning: generation 3 has ended: hvdliterun has lost member 8 (rank 1)") !=
        std::string::npos;
    EXPECT_EQ(of_generation, generation == 3) << log;
  }
}

TEST(EngineGeneration, its_ranks_may_have_less_than_the_start_timeout_to_meet) {
  engine::EngineOptions alone = Options(0, 2, 3);
  alone.seconds_to_meet = 1;
  Play({alone}, [](const Status& started, Engine*) {
    EXPECT_TRUE(FailsWith(started, StatusCode::kTimeout, "did not call hvd.init() within 1 s"));
  });
}

// 4 ranks on 1 or 2 hosts whose processes sit in these slots; the bits of a sum that rounds.
std::vector<float> Sum(int hosts, const std::vector<int>& slots) {
  std::vector<engine::EngineOptions> options;
  for (int rank = 0; rank < kSize; ++rank) {
    options.push_back(Options(rank, kSize, 1));
    options.back().slot = slots[static_cast<size_t>(rank)];
    // Rank r is on the host where it was in the first generation.
    options.back().config.host_id = "pretended-" + std::to_string(rank * hosts / kSize);
  }
  constexpr size_t kCount = 10007;
  std::vector<float> sum;
  Play(options, [&](const Status& started, Engine* engine) {
    ASSERT_TRUE(started.ok()) << started.ToString();
    int local_rank = 0;
    for (int rank = 0; rank < kSize; ++rank) {
      const auto of = [&](int each) { return slots[static_cast<size_t>(each)]; };
      if (rank * hosts / kSize == engine->rank() * hosts / kSize)
        local_rank += of(rank) < of(engine->rank()) ? 1 : 0;
    }
    EXPECT_EQ(engine->world().place().local_rank, local_rank);
    std::vector<float> x(kCount), y(kCount);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = std::pow(3.7f, static_cast<float>(engine->rank() * 5)) / static_cast<float>(i + 3);
    HandlePtr handle;
    ASSERT_TRUE(engine->Submit(0, Allreduce("x", x, &y), /*will_wait=*/true, &handle).ok());
    while (!engine->Wait(*handle, 10 * kMillisecond)) {
    }
    ASSERT_TRUE(handle->status().ok()) << handle->status().ToString();
    if (engine->rank() == 0) sum = y;
  });
  return sum;
}

TEST(EngineGeneration, bits_depend_on_ranks_and_not_on_the_slots_that_died) {
  for (int hosts : {1, 2}) {
    const std::vector<float> undisturbed = Sum(hosts, {0, 1, 2, 3});
    EXPECT_EQ(Sum(hosts, {1, 2, 3, 0}), undisturbed) << hosts;
    EXPECT_EQ(Sum(hosts, {7, 0, 3, 1}), undisturbed) << hosts;
  }
}

}  // namespace
}  // namespace hvdlite::testing
