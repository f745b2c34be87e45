// The end of a job over sockets: a member that is behind hears it whatever the others have done
// meanwhile.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "engine/negotiate/agree.h"
#include "transport/tcp/link.h"

namespace hvdlite::engine {
namespace {

// A root and one child, each at its end of a socket.
class AgreementEnd : public ::testing::Test {
 protected:
  AgreementEnd() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    for (int m = 0; m < 2; ++m) {
      links_[m] = std::make_unique<transport::tcp::Link>(Fd(fds[m]), 1 - m);
      TreePlace place;
      place.me = m;
      if (m == 0) place.children.push_back({links_[0].get(), {1}});
      if (m == 1) place.parent = links_[1].get();
      members_[m] =
          std::make_unique<Agreement>(std::move(place), std::vector<int>{0, 1}, AgreementOptions{});
    }
  }

  // All want to leave, and the root has said so to all.
  void RootDecidesTheEnd() {
    members_[0]->AnnounceShutdown(0);
    members_[1]->AnnounceShutdown(0);
    ASSERT_TRUE(members_[1]->Flush());
    ASSERT_EQ(Hears(0), std::vector<Down>{Down::kShutdown});
    ASSERT_TRUE(members_[0]->Flush());
  }

  std::vector<Down> Hears(int m) {
    bool moved = false;
    std::vector<Decision> decisions;
    status_ = members_[m]->Exchange(0, &decisions, &moved);
    std::vector<Down> kinds;
    for (const Decision& decision : decisions) kinds.push_back(decision.kind);
    return kinds;
  }

  void Close(int m) {
    members_[m].reset();
    links_[m].reset();
  }

  std::unique_ptr<transport::tcp::Link> links_[2];
  std::unique_ptr<Agreement> members_[2];
  Status status_;  // of the last Exchange
};

TEST_F(AgreementEnd, IsHeardByAMemberThatSpeaksToARootThatHasGone) {
  RootDecidesTheEnd();
  Close(0);
  // Before it has read anything, as a starved rank does whose tick is due.
  members_[1]->SendAlive();
  EXPECT_EQ(Hears(1), std::vector<Down>{Down::kShutdown});
  EXPECT_EQ(status_.code(), StatusCode::kPeerLost);
}

TEST_F(AgreementEnd, LeaveIsTakenWhenTheOtherHasTakenItToo) {
  RootDecidesTheEnd();
  EXPECT_FALSE(members_[0]->TakeLeave());
  members_[1]->SendAlive();
  EXPECT_EQ(Hears(1), std::vector<Down>{Down::kShutdown});
  EXPECT_FALSE(members_[0]->TakeLeave());  // what the child said meanwhile is no end
  EXPECT_TRUE(members_[1]->TakeLeave());
  EXPECT_TRUE(members_[0]->TakeLeave());
}

TEST_F(AgreementEnd, LeaveIsTakenOfTheDeadAtOnce) {
  RootDecidesTheEnd();
  Close(1);
  EXPECT_TRUE(members_[0]->TakeLeave());
}

}  // namespace
}  // namespace hvdlite::engine
