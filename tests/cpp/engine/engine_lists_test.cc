// Groups that travel as one operation, through whole engines.
#include <algorithm>
#include <atomic>
#include <random>

#include "engine/list.h"
#include "testing/ranks.h"
#include "testing/says.h"

namespace hvdlite::testing {
namespace {

using Tensors = std::vector<std::vector<float>>;

Submission AList(const std::string& name, Tensors* tensors) {
  Submission s;
  s.request.name = name;
  s.request.group = 7;
  for (std::vector<float>& x : *tensors) {
    const auto count = static_cast<int64_t>(x.size());
    engine::AddToList(&count, 1, &s.request);
    s.list.push_back({x.data(), x.data()});
  }
  s.request.shape = {engine::ElementsOf(s.request)};
  s.input.data = s.output.data = tensors->front().data();
  s.input.shape = s.output.shape = s.request.shape;
  return s;
}

Tensors Filled(float value, const std::vector<size_t>& sizes = {3, 0, 70000, 1, 12}) {
  Tensors tensors;
  for (size_t i = 0; i < sizes.size(); ++i)
    tensors.emplace_back(sizes[i], value * static_cast<float>(i + 1));
  return tensors;
}

int64_t Metric(Rank* me, const std::string& name) {
  const std::string all = me->engine->Metrics();
  const size_t at = all.find("\"" + name + "\": ");
  EXPECT_NE(at, std::string::npos) << all;
  return std::stoll(all.substr(at + name.size() + 4));
}

class EngineLists : public ::testing::TestWithParam<int> {
 protected:
  RanksOptions Options(int size = 3) const { return {.size = size, .hosts = GetParam()}; }
};

TEST_P(EngineLists, a_list_is_one_slot_one_batch_and_the_right_sums) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 4; ++round) {
      Tensors x = Filled(static_cast<float>(me.rank + round));
      ASSERT_TRUE(me.Do(AList("grouped_allreduce.g", &x)).ok());
      ASSERT_EQ(x, Filled(static_cast<float>(3 + 3 * round)));
    }
    EXPECT_EQ(Metric(&me, "operations"), 4 * 5);
    EXPECT_EQ(Metric(&me, "batches"), 4);
    EXPECT_EQ(Metric(&me, "requests_in_full"), 1);
    EXPECT_EQ(Metric(&me, "requests_by_slot"), 3);
  });
}

TEST_P(EngineLists, a_list_keeps_other_operations_company) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 5; ++round) {
      Tensors a = Filled(1), b = Filled(2, {5, 9});
      std::vector<float> alone(10, 1);
      const HandlePtr first = me.Submit(AList("grouped_allreduce.a", &a));
      const HandlePtr second = me.Submit(Allreduce("allreduce.alone", alone, &alone));
      const HandlePtr third = me.Submit(AList("grouped_allreduce.b", &b));
      for (const HandlePtr& handle : {third, first, second}) ASSERT_TRUE(me.Wait(handle).ok());
      ASSERT_EQ(a, Filled(3));
      ASSERT_EQ(b, Filled(6, {5, 9}));
      ASSERT_EQ(alone, std::vector<float>(10, 3));
    }
  });
}

TEST_P(EngineLists, a_list_of_other_tensors_under_the_name_is_known_anew) {
  RunRanks(Options(), [](Rank& me) {
    for (const auto& sizes : std::vector<std::vector<size_t>>{{4, 5}, {4, 5}, {5, 4}, {4}, {4}}) {
      Tensors x = Filled(1, sizes);
      ASSERT_TRUE(me.Do(AList("grouped_allreduce.g", &x)).ok());
      ASSERT_EQ(x, Filled(3, sizes));
    }
    EXPECT_EQ(Metric(&me, "requests_in_full"), 3);
  });
}

TEST_P(EngineLists, ranks_that_have_joined_give_zeros) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 3 + me.rank; ++round) {
      Tensors x = Filled(1);
      ASSERT_TRUE(me.Do(AList("grouped_allreduce.g", &x)).ok());
      ASSERT_EQ(x, Filled(static_cast<float>(round < 3 ? 3 : 5 - round)));
    }
    ASSERT_TRUE(me.Do(Join()).ok());
  });
}

TEST_P(EngineLists, a_disagreement_names_the_tensor_and_the_engine_goes_on) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 4; ++round) {
      const bool wrong = round % 2 == 1;
      const std::vector<size_t> mine{3, wrong && me.rank == 1 ? 8u : 9u, 4};
      Tensors x = Filled(1, mine);
      const Status status = me.Do(AList("grouped_allreduce.g", &x));
      ASSERT_EQ(status.code(), wrong ? StatusCode::kMismatch : StatusCode::kOk);
      ASSERT_EQ(x, Filled(wrong ? 1 : 3, mine));
      if (wrong) {
        ASSERT_TRUE(Says(status, "'g_2of3': ranks 0 and 2 sent shape [9], rank 1 sent shape [8]"));
      }
    }
  });
}

// One rank's group has a tensor of another dtype, so it is no list there.
TEST_P(EngineLists, a_list_that_meets_single_tensors_fails_everywhere) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 4; ++round) {
      Tensors x = Filled(1, {2, 3});
      std::vector<double> odd(3, 1);
      const bool wrong = round % 2 == 1;
      Status status;
      if (!wrong || me.rank != 1) {
        status = me.Do(AList("grouped_allreduce.g", &x));
      } else {
        std::vector<Submission> group;
        group.push_back(Allreduce("grouped_allreduce.g_1of2", x[0], &x[0]));
        group.push_back(Allreduce("grouped_allreduce.g_2of2", odd, &odd));
        for (Submission& each : group) each.request.group = 7, each.request.group_size = 2;
        std::vector<HandlePtr> handles;
        ASSERT_TRUE(me.engine->SubmitGroup(0, std::move(group), &handles).ok());
        for (const HandlePtr& handle : handles) status = me.Wait(handle);
      }
      ASSERT_EQ(status.code(), wrong ? StatusCode::kMismatch : StatusCode::kOk);
      ASSERT_EQ(x, Filled(wrong ? 1 : 3, {2, 3}));
      if (wrong) {
        ASSERT_TRUE(
            Says(status, "'g_2of2': ranks 0 and 2 sent dtype float32, rank 1 sent dtype float64"));
      }
    }
  });
}

// A list of independent tensors; `begin` is the first one's number.
Submission Named(size_t begin, Tensors* all, size_t count) {
  Submission s;
  std::vector<std::string> names;
  s.request.name = "list";
  for (size_t i = begin; i < begin + count; ++i) {
    std::vector<float>& x = (*all)[i];
    names.push_back("allreduce.t" + std::to_string(i));
    s.request.name += "/" + names.back();
    const auto elements = static_cast<int64_t>(x.size());
    engine::AddToList(&elements, 1, &s.request);
    s.list.push_back({x.data(), x.data()});
  }
  s.request.names = std::make_shared<const std::vector<std::string>>(std::move(names));
  s.request.shape = {engine::ElementsOf(s.request)};
  s.input.data = s.output.data = (*all)[begin].data();
  s.input.shape = s.output.shape = s.request.shape;
  return s;
}

TEST_P(EngineLists, ranks_that_cut_their_lists_in_other_places_get_the_same_sums) {
  RunRanks(Options(), [](Rank& me) {
    std::mt19937 random(static_cast<uint32_t>(me.rank));
    const std::vector<size_t> sizes{3, 1, 70000, 8, 5, 900, 2, 4};
    for (int round = 0; round < 60; ++round) {
      Tensors x = Filled(1, sizes);
      std::vector<HandlePtr> handles;
      for (size_t begin = 0; begin < sizes.size();) {
        // In the first rounds all cut alike, then each as it likes.
        const size_t count =
            std::min<size_t>(round < 10 ? 3 : 1 + random() % 4, sizes.size() - begin);
        if (count == 1 && random() % 2 == 0) {
          handles.push_back(
              me.Submit(Allreduce("allreduce.t" + std::to_string(begin), x[begin], &x[begin])));
        } else {
          handles.push_back(me.Submit(Named(begin, &x, count)));
        }
        begin += count;
      }
      std::shuffle(handles.begin(), handles.end(), random);
      for (const HandlePtr& handle : handles) ASSERT_TRUE(me.Wait(handle).ok());
      ASSERT_EQ(x, Filled(3, sizes));
      if (round == 9) {
        ASSERT_EQ(Metric(&me, "lists"), 30);
        ASSERT_EQ(Metric(&me, "lists_taken_apart"), 0);
      }
    }
    EXPECT_GT(Metric(&me, "lists_taken_apart"), 10);
    EXPECT_EQ(Metric(&me, "operations"), 60 * 8);
    EXPECT_EQ(Metric(&me, "failures"), 0);
  });
}

TEST_P(EngineLists, a_disagreement_about_one_tensor_of_a_list_ends_the_list_alone) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 4; ++round) {
      const bool wrong = round % 2 == 1;
      Tensors x = Filled(1, {3, wrong && me.rank == 2 ? 7u : 8u, 4, 5});
      std::vector<HandlePtr> handles;
      if (me.rank == 2) {  // singly
        for (size_t i = 0; i < 3; ++i)
          handles.push_back(me.Submit(Allreduce("allreduce.t" + std::to_string(i), x[i], &x[i])));
      } else {
        handles.push_back(me.Submit(Named(0, &x, 3)));
      }
      handles.push_back(me.Submit(Named(3, &x, 1)));
      ASSERT_TRUE(me.Wait(handles.back()).ok());
      handles.pop_back();
      size_t failed = 0;
      for (const HandlePtr& handle : handles) {
        const Status status = me.Wait(handle);
        if (status.ok()) continue;
        ++failed;
        ASSERT_TRUE(Says(status, "'t1': ranks 0 and 1 sent shape [8], rank 2 sent shape [7]"));
      }
      ASSERT_EQ(failed, wrong ? 1u : 0u);
      ASSERT_EQ(x[0], std::vector<float>(3, 3));
      ASSERT_EQ(x[2], std::vector<float>(4, 9));
      ASSERT_EQ(x[3], std::vector<float>(5, 12));
    }
  });
}

TEST_P(EngineLists, a_tensor_that_is_in_flight_already_is_refused_with_its_list) {
  std::atomic<int> trying{0};
  RunRanks(Options(), [&](Rank& me) {
    Tensors x = Filled(1, {3, 8, 4});
    std::vector<HandlePtr> handles;
    if (me.rank == 0) {
      HandlePtr refused;
      handles.push_back(me.Submit(Named(1, &x, 2)));
      for (Submission second : {Named(0, &x, 2), Allreduce("allreduce.t1", x[1], &x[1])}) {
        const Status status = me.engine->Submit(0, std::move(second), false, &refused);
        EXPECT_EQ(status.code(), StatusCode::kDuplicateName);
        EXPECT_TRUE(Says(status, "allreduce 't1' is still outstanding"));
      }
      handles.push_back(me.Submit(Allreduce("allreduce.t0", x[0], &x[0])));  // it was left free
      trying = 1;
    } else {
      while (trying == 0) usleep(100);
      handles.push_back(me.Submit(Named(0, &x, 3)));
    }
    for (const HandlePtr& handle : handles) ASSERT_TRUE(me.Wait(handle).ok());
    ASSERT_EQ(x, Filled(3, {3, 8, 4}));
  });
}

TEST_P(EngineLists, ranks_that_have_joined_give_zeros_to_lists_in_pieces) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 3 + me.rank; ++round) {
      Tensors x = Filled(1, {3, 8, 4});
      std::vector<HandlePtr> handles;
      const size_t first = me.rank == 2 ? 2 : 1;
      handles.push_back(me.Submit(Named(0, &x, first)));
      handles.push_back(me.Submit(Named(first, &x, 3 - first)));
      for (const HandlePtr& handle : handles) ASSERT_TRUE(me.Wait(handle).ok());
      ASSERT_EQ(x, Filled(static_cast<float>(round < 3 ? 3 : 5 - round), {3, 8, 4}));
    }
    ASSERT_TRUE(me.Do(Join()).ok());
  });
}

// Eight members of a host are the first one's children, and the others theirs.
TEST(EngineHostTree, members_behind_a_relay_agree_disagree_and_join) {
  constexpr int kRanks = 12;
  RunRanks({.size = kRanks, .hosts = 1}, [](Rank& me) {
    const bool behind = me.rank == kRanks - 1;
    for (int round = 0; round < 6; ++round) {
      const bool wrong = round % 3 == 1;
      Tensors x = Filled(1, {3, wrong && behind ? 7u : 8u});
      const Status status = me.Do(AList("grouped_allreduce.g", &x));
      ASSERT_EQ(status.code(), wrong ? StatusCode::kMismatch : StatusCode::kOk);
      if (wrong) {
        ASSERT_TRUE(Says(status, "ranks 0-10 sent shape [8], rank 11 sent shape [7]"));
      } else {
        ASSERT_EQ(x[0], std::vector<float>(3, kRanks));
      }
    }
    std::vector<float> x(5, 1);
    for (int round = 0; round <= (behind ? 4 : 0); ++round) {
      ASSERT_TRUE(me.Do(Allreduce("allreduce.alone", x, &x)).ok());
    }
    ASSERT_TRUE(me.Do(Join()).ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, EngineLists, ::testing::Values(1, 3));

}  // namespace
}  // namespace hvdlite::testing
