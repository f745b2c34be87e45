// TraceFile: an array that is whole at any time, and what happens when it finds no place.
#include "engine/observe/trace_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

namespace hvdlite::engine {
namespace {

class TraceFileTest : public ::testing::Test {
 protected:
  ~TraceFileTest() override { unlink(path_.c_str()); }
  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const std::string path_ = ::testing::TempDir() + "hvdlite-array." + std::to_string(getpid());
};

TEST_F(TraceFileTest, IsAWholeArrayAfterEachAppend) {
  TraceFile file(1 << 20);
  ASSERT_TRUE(file.Open(path_).ok());
  EXPECT_EQ(Text(), "[\n]");
  ASSERT_TRUE(file.Append("1").ok());
  EXPECT_EQ(Text(), "[\n1]");
  ASSERT_TRUE(file.Append(",\n2,\n3").ok());
  EXPECT_EQ(Text(), "[\n1,\n2,\n3]");
  ASSERT_TRUE(file.Open(path_).ok());
  EXPECT_EQ(Text(), "[\n]");
}

TEST_F(TraceFileTest, RefusesWhatWouldMakeItTooLarge) {
  TraceFile file(3 << 20);
  ASSERT_TRUE(file.Open(path_).ok());
  const std::string most((3 << 20) - 3, '1');
  const Status refused = file.Append(most + "1");
  EXPECT_EQ(refused.message().find("the timeline '" + path_ + "' has reached 3 MB"), 0u);
  EXPECT_EQ(Text(), "[\n]");
  ASSERT_TRUE(file.Append(most).ok());
  EXPECT_EQ(Text().size(), 3u << 20);
}

// A limit of the process' files fails like a disk that takes only the first bytes.
TEST_F(TraceFileTest, KeepsWhatItHasWhenTheDiskIsFull) {
  TraceFile file(1 << 20);
  ASSERT_TRUE(file.Open(path_).ok());
  ASSERT_TRUE(file.Append("12345").ok());
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit ten{10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &ten);
  const Status full = file.Append(",67890");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(full.code(), StatusCode::kIo);
  EXPECT_NE(full.message().find(path_), std::string::npos);
  EXPECT_NE(full.message().find("File too large"), std::string::npos) << full.message();
  EXPECT_EQ(Text(), "[\n12345]");
}

TEST_F(TraceFileTest, NamesAFileThatCannotBeMadeOrTakesNothing) {
  TraceFile file(1 << 20);
  EXPECT_EQ(file.Open("/dev/full").message().find("cannot write the timeline to '/dev/full'"), 0u);
  EXPECT_EQ(file.Open(path_ + "/x").code(), StatusCode::kIo);
}

}  // namespace
}  // namespace hvdlite::engine
