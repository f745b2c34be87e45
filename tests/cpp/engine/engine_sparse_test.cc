// Sparse allreduces through whole engines: what ranks must agree about, joined ranks, a death, and
// many at once from several threads under random delays.
#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "engine/job.h"
#include "testing/in_threads.h"
#include "testing/normal.h"
#include "testing/ranks.h"

namespace hvdlite::testing {
namespace {

using Floats = std::vector<float>;

// A tensor of one rank, which sends `taken` elements of it in each step.
struct SparseStream {
  std::string name;
  int64_t taken;
  Floats input, result, residual, next;

  SparseStream(std::string its_name, size_t count, int64_t elements)
      : name(std::move(its_name)),
        taken(elements),
        input(count),
        result(count, 77),
        residual(count),
        next(count, 77) {}
  Submission Ask() {
    Submission s = Allreduce(name, input, &result);
    s.request.taken = taken;
    s.memory.residual = residual.data();
    s.memory.new_residual = next.data();
    return s;
  }
};

TEST(EngineSparse, ranks_agree_about_the_number_of_elements) {
  RunRanks({.size = 3}, [](Rank& me) {
    SparseStream stream("x", 10, me.rank == 2 ? 4 : 3);
    const Status status = me.Do(stream.Ask());
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_EQ(status.message(),
              "allreduce 'x': ranks 0 and 1 sent 3 elements of 10, rank 2 sent 4 elements of 10. "
              "All ranks must compress the tensor alike.");
    SparseStream other("y", 10, 3);
    Submission dense = Allreduce("y", other.input, &other.result);
    const Status mixed = me.Do(me.rank == 0 ? std::move(dense) : other.Ask());
    EXPECT_NE(mixed.message().find("rank 0 sent all elements, ranks 1 and 2 sent 3 elements"),
              std::string::npos)
        << mixed.message();
    // The job goes on.
    EXPECT_TRUE(me.Do(SparseStream("z", 10, 3).Ask()).ok());
  });
}

TEST(EngineSparse, ranks_that_have_joined_add_nothing) {
  RunRanks({.size = 3}, [](Rank& me) {
    if (me.rank == 1) {
      EXPECT_TRUE(me.Do(Join()).ok());
      return;
    }
    SparseStream stream("x", 1000, 1);
    stream.input[static_cast<size_t>(me.rank)] = 5;
    EXPECT_TRUE(me.Do(stream.Ask()).ok());
    EXPECT_EQ(stream.result[0], 5);
    EXPECT_EQ(stream.result[2], 5);
    EXPECT_EQ(std::accumulate(stream.result.begin(), stream.result.end(), 0.0F), 10);
    EXPECT_TRUE(me.Do(Join()).ok());
  });
}

class EngineSparseJobs : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(, EngineSparseJobs,
                         ::testing::Values(Job{2, 1}, Job{3, 1}, Job{4, 1}, Job{2, 2}, Job{3, 3},
                                           Job{4, 2}),
                         [](const auto& job) {
                           return std::to_string(job.param.ranks) + "_ranks_on_" +
                                  std::to_string(job.param.hosts);
                         });

// What is sent and what is kept is what was given, and all ranks have the same bits.
TEST_P(EngineSparseJobs, many_at_once_from_two_threads_with_random_delays) {
  RanksOptions options{.size = GetParam().ranks, .hosts = GetParam().hosts};
  options.config.debug_delay_microseconds = 200;
  std::mutex mutex;
  std::map<std::string, Floats> everyones;
  RunRanks(options, [&](Rank& me) {
    InThreads(2, [&](int thread) {
      std::vector<SparseStream> streams;
      for (int i = 0; i < 5; ++i) {
        streams.emplace_back("x" + std::to_string(i) + "." + std::to_string(thread),
                             static_cast<size_t>(i * i * 9000 + 7), 1 + i * 50);
      }
      for (unsigned step = 0; step < 4; ++step) {
        std::vector<HandlePtr> handles;
        for (SparseStream& stream : streams) {
          stream.input = Normal(stream.input.size(), step * 31 + static_cast<unsigned>(me.rank));
          handles.push_back(me.Submit(stream.Ask()));
        }
        for (size_t i = 0; i < streams.size(); ++i) {
          SparseStream& stream = streams[i];
          EXPECT_TRUE(me.Wait(handles[i]).ok());
          Floats left(stream.input.size());
          for (size_t k = 0; k < left.size(); ++k)
            left[k] = stream.residual[k] + stream.input[k] - stream.next[k];
          Floats sum(left.size());
          EXPECT_TRUE(me.Wait(me.Submit(Allreduce(stream.name + ".sent", left, &sum))).ok());
          for (size_t k = 0; k < sum.size(); ++k) {
            if (std::fabs(sum[k] - stream.result[k]) < 1e-4) continue;
            ADD_FAILURE() << stream.name << " " << k << ": " << stream.result[k] << " " << sum[k];
            break;
          }
          std::swap(stream.residual, stream.next);
          const std::lock_guard<std::mutex> lock(mutex);
          const auto [first, is_first] =
              everyones.emplace(stream.name + std::to_string(step), stream.result);
          EXPECT_EQ(first->second, stream.result) << stream.name;
        }
      }
    });
  });
}

}  // namespace
}  // namespace hvdlite::testing
