#include "kernels/greatest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace hvdlite::kernels {
namespace {

using List = std::vector<uint64_t>;

// Different elements: their numbers are in the lower half.
List WithUpperHalves(size_t count, const std::function<uint64_t(size_t)>& upper) {
  List list;
  for (size_t i = 0; i < count; ++i) list.push_back(upper(i) << 32 | (i * 7919 % count));
  return list;
}

void ExpectTheGreatest(const List& given, size_t kept, const std::string& what) {
  List sorted = given;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.resize(kept);
  List list = given;
  const uint64_t least =
      KeepGreatest(list.data(), static_cast<int64_t>(list.size()), static_cast<int64_t>(kept));
  list.resize(kept);
  std::sort(list.begin(), list.end(), std::greater<>());
  EXPECT_EQ(list, sorted) << what;
  EXPECT_EQ(least, sorted.back()) << what;
}

// 8191 is prime.
uint64_t Spread(size_t i) {
  return i * 5003 % 8191 * 262144 + 17;
}

TEST(KeepGreatest, is_what_sorting_finds) {
  for (const size_t count : {1, 2, 255, 256, 257, 1000, 5000}) {
    const std::vector<List> lists = {
        WithUpperHalves(count, Spread),
        WithUpperHalves(count, [](size_t) { return 0x3F800000; }),
        WithUpperHalves(count, [](size_t i) { return i % 3; }),
        WithUpperHalves(count, [](size_t i) { return i == 0 ? 0xFFFFFFFF : i; }),
        WithUpperHalves(count, [](size_t i) { return i == 1 ? 0 : 0xFFFFFFFF - i % 600; }),
    };
    for (const size_t kept : {size_t{1}, count / 2, count - 1, count}) {
      if (kept < 1) continue;
      for (size_t i = 0; i < lists.size(); ++i)
        ExpectTheGreatest(lists[i], kept,
                          std::to_string(kept) + " of list " + std::to_string(i) + " with " +
                              std::to_string(count));
    }
  }
}

TEST(KeepGreatest, leaves_most_in_their_order) {
  List list = WithUpperHalves(4000, Spread);
  const List given = list;
  KeepGreatest(list.data(), 4000, 2000);
  size_t before = 0, turns_back = 0;
  for (size_t i = 0; i < 2000; ++i) {
    const auto at =
        static_cast<size_t>(std::find(given.begin(), given.end(), list[i]) - given.begin());
    turns_back += at < before ? 1 : 0;
    before = at;
  }
  EXPECT_LT(turns_back, 20U);
}

}  // namespace
}  // namespace hvdlite::kernels
