#include "engine/tune/saved.h"
#include "testing/says.h"

#include <gtest/gtest.h>

namespace hvdlite::engine {
namespace {

TEST(Saved, is_read_by_a_job_of_the_same_size) {
  Setting setting;
  setting.notches = {2, -1, 0, 1, -3};
  const std::string text = SavedText(setting, {8, 2}, Config());
  EXPECT_TRUE(
      Says(text, "8 ranks on 2 hosts\ncycle_time 2  # 4 ms\nfusion_threshold -1  # 32 MB\n"));
  std::string why;
  EXPECT_EQ(ReadSaved(text, {8, 2}, &why), setting) << why;
  EXPECT_FALSE(ReadSaved(text, {4, 2}, &why).has_value());
  EXPECT_EQ(why, "it is of a job of 8 ranks on 2 hosts, and this one has 4 ranks on 2 hosts");
}

struct Damage {
  const char* text;
  const char* why;
};

class SavedDamage : public ::testing::TestWithParam<Damage> {};

TEST_P(SavedDamage, is_refused_with_a_reason) {
  std::string why;
  EXPECT_FALSE(ReadSaved(GetParam().text, {2, 1}, &why).has_value());
  EXPECT_TRUE(Says(why, GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, SavedDamage,
    ::testing::Values(
        Damage{"", "this version reads"}, Damage{"hvdlite autotune 2\n", "this version reads"},
        Damage{"hvdlite autotune 1\n", "second line"},
        Damage{"hvdlite autotune 1\n2 ranks\n", "second line"},
        Damage{"hvdlite autotune 1\n2 ranks on 1 hosts\ncycle_time\n", "'cycle_time'"},
        Damage{"hvdlite autotune 1\n2 ranks on 1 hosts\ncycle_time 77\n", "'cycle_time 77'"},
        Damage{"hvdlite autotune 1\n2 ranks on 1 hosts\nstreams 1\n", "'streams 1'"}));

}  // namespace
}  // namespace hvdlite::engine
