#include "engine/list.h"

#include <gtest/gtest.h>

namespace hvdlite::engine {
namespace {

Request AList(const std::vector<Shape>& shapes) {
  Request list;
  list.name = "grouped_allreduce.g";
  list.group = 7;
  for (const Shape& shape : shapes) AddToList(shape.data(), shape.size(), &list);
  list.shape = {ElementsOf(list)};
  return list;
}

TEST(List, counts_its_tensors_and_their_elements) {
  const Request list = AList({{2, 3}, {}, {0, 5}, {4}});
  EXPECT_TRUE(IsSoundList(list));
  EXPECT_EQ(TensorsOf(list), 4u);
  EXPECT_EQ(ElementsOf(list), 6 + 1 + 0 + 4);
  std::vector<Shape> seen;
  ForEachInList(list, [&](const int64_t* shape, size_t n) { seen.emplace_back(shape, shape + n); });
  EXPECT_EQ(seen, (std::vector<Shape>{{2, 3}, {}, {0, 5}, {4}}));
  Request alone;
  alone.group = 7;
  alone.group_size = 9;
  EXPECT_EQ(TensorsOf(alone), 1u) << "one of nine that travel singly";
}

TEST(List, says_of_each_tensor_what_it_would_be_alone) {
  const Request one = InList(AList({{2, 3}, {}, {4}}), 1);
  EXPECT_EQ(one.name, "grouped_allreduce.g_2of3");
  EXPECT_EQ(one.shape, Shape{});
  EXPECT_FALSE(one.is_list());
  EXPECT_EQ(one.group, 7u);
  EXPECT_EQ(one.group_size, 3u);
}

TEST(List, names_lead_back_to_the_group) {
  size_t i = 0;
  EXPECT_EQ(GroupOf(NameInGroup("grouped_allreduce.g", 11, 161), &i), "grouped_allreduce.g");
  EXPECT_EQ(i, 11u);
  EXPECT_EQ(GroupOf("g_1of2_3of4", &i), "g_1of2");
  EXPECT_EQ(i, 2u);
  EXPECT_EQ(GroupOf("_1of2", &i), "");
  for (const char* other :
       {"g", "g_of2", "g_1of", "g1of2", "g_1on2", "g_0of2", "1of2", "of2", "2", ""})
    EXPECT_EQ(GroupOf(other, &i), "") << other;
}

TEST(List, may_have_names_of_its_tensors_own) {
  Request list = AList({{2}, {3}});
  list.group = 0;
  list.names = std::make_shared<const std::vector<std::string>>(
      std::vector<std::string>{"allreduce.a", "allreduce.b"});
  EXPECT_EQ(TensorName(list, 1), "allreduce.b");
  const Request one = InList(list, 1);
  EXPECT_EQ(one.name, "allreduce.b");
  EXPECT_EQ(one.group_size, 0u) << "as it asks alone";
  EXPECT_EQ(one.names, nullptr);
}

TEST(List, finds_the_first_tensor_that_differs) {
  const Request list = AList({{2, 3}, {}, {4}, {5, 6}});
  EXPECT_EQ(FirstDifference(list, list), 4u);
  EXPECT_EQ(FirstDifference(list, AList({{2, 9}, {}, {4}, {5, 7}})), 0u);
  EXPECT_EQ(FirstDifference(list, AList({{2, 3}, {1}, {4}, {5, 6}})), 1u);
  EXPECT_EQ(FirstDifference(list, AList({{2, 3}, {}, {4}, {5, 7}})), 3u);
  EXPECT_EQ(FirstDifference(list, AList({{2, 3}, {}, {4}})), 3u);
}

}  // namespace
}  // namespace hvdlite::engine
