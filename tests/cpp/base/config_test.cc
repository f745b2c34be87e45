#include "base/config.h"
#include "testing/says.h"

#include <gtest/gtest.h>

namespace hvdlite {
namespace {

TEST(Config, fields_are_set_by_name) {
  Config config;
  EXPECT_TRUE(config.Set("shm_chunk_bytes", "8192").ok());
  EXPECT_EQ(config.shm_chunk_bytes, 8192);
  EXPECT_EQ(config.Set("shm_chunk_bytes", "many").message(),
            "knob shm_chunk_bytes: cannot read the value 'many'");
  EXPECT_EQ(config.Set("no_such_knob", "1").message(), "there is no knob named 'no_such_knob'");
}

TEST(Config, what_ranks_must_have_alike_shows_in_a_text) {
  Config one;
  Config other;
  EXPECT_EQ(one.Alike(), other.Alike());
  EXPECT_TRUE(Says(one.Alike(), "HVDLITE_CPU_OPERATIONS=auto;"));
  ASSERT_TRUE(other.Set("cycle_time", "7").ok());  // each rank may have its own
  EXPECT_EQ(one.Alike(), other.Alike());
  for (const char* field : {"shm_chunk_bytes", "torus_allreduce"}) {
    Config third;
    ASSERT_TRUE(third.Set(field, "1").ok());
    EXPECT_NE(one.Alike(), third.Alike()) << field;
  }
}

}  // namespace
}  // namespace hvdlite
