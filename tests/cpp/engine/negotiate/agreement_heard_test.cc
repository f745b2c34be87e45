// What counts as a sign of life of a neighbour on another host.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/negotiate/agree.h"
#include "transport/frames.h"
#include "transport/tcp/link.h"

namespace hvdlite::engine {
namespace {

class AgreementHeard : public ::testing::Test {
 protected:
  AgreementHeard() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    mine_ = std::make_unique<transport::tcp::Link>(Fd(fds[0]), 1);
    theirs_ = std::make_unique<transport::tcp::Link>(Fd(fds[1]), 0);
    TreePlace place;
    place.children.push_back({mine_.get(), {1}});
    agreement_ =
        std::make_unique<Agreement>(std::move(place), std::vector<int>{0, 1}, AgreementOptions());
  }
  void Comes(const std::string& bytes) {
    size_t moved = 0;
    ASSERT_TRUE(theirs_->TrySend(bytes.data(), bytes.size(), &moved).ok());
    ASSERT_EQ(moved, bytes.size());
  }
  Nanos LastHeardAfter(Nanos now) {
    bool moved = false;
    std::vector<Decision> decisions;
    EXPECT_TRUE(agreement_->Exchange(now, &decisions, &moved).ok());
    return agreement_->LastHeard().at(0).at;
  }
  static std::string Number(uint32_t number) {
    return std::string(reinterpret_cast<const char*>(&number), 4);
  }

  std::unique_ptr<transport::tcp::Link> mine_, theirs_;
  std::unique_ptr<Agreement> agreement_;
};

TEST_F(AgreementHeard, is_each_whole_frame) {
  transport::FrameChannel child(theirs_.get());
  const std::string alive = {1, static_cast<char>(Up::kAlive)};  // of member 1
  for (Nanos now = 1; now < 5; ++now) {
    bool moved = false;
    child.Send(alive);
    ASSERT_TRUE(child.PumpOut(&moved).ok());
    EXPECT_EQ(LastHeardAfter(now), now);
  }
  EXPECT_EQ(LastHeardAfter(9), 4);
}

// Nobody knows whether the rest will ever come: its length may be wrong.
TEST_F(AgreementHeard, is_not_a_part_of_a_frame) {
  Comes(Number(1 << 20) + Number(0));
  EXPECT_EQ(LastHeardAfter(1), 0);
  for (Nanos now = 2; now < 5; ++now) {
    Comes(std::string(100, 'x'));
    EXPECT_EQ(LastHeardAfter(now), 0);
  }
}

}  // namespace
}  // namespace hvdlite::engine
