#include "engine/queue/inbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace hvdlite::engine {
namespace {

std::unique_ptr<Entry> Make(const std::string& name, OpKind kind = OpKind::kAllreduce) {
  auto entry = std::make_unique<Entry>();
  entry->request.name = name;
  entry->request.kind = kind;
  entry->handle = std::make_shared<Handle>();
  return entry;
}

TEST(Inbox, a_name_is_taken_until_its_operation_is_done) {
  Inbox inbox;
  EXPECT_TRUE(inbox.empty());
  EXPECT_TRUE(inbox.all_done());
  EXPECT_TRUE(inbox.Submit(Make("a")).ok());
  EXPECT_FALSE(inbox.empty());
  EXPECT_EQ(inbox.Submit(Make("a")).code(), StatusCode::kDuplicateName);
  std::vector<Entry*> fetched;
  inbox.Fetch(&fetched);
  ASSERT_EQ(fetched.size(), 1u);
  EXPECT_TRUE(inbox.empty());
  EXPECT_FALSE(inbox.all_done());
  EXPECT_EQ(inbox.Submit(Make("a")).code(), StatusCode::kDuplicateName);
  const HandlePtr handle = fetched[0]->handle;
  inbox.Complete(fetched[0], Status::Ok());
  EXPECT_TRUE(handle->done());
  EXPECT_TRUE(inbox.Submit(Make("a")).ok());
}

TEST(Inbox, a_group_is_taken_whole_or_not_at_all) {
  Inbox inbox;
  EXPECT_TRUE(inbox.Submit(Make("b")).ok());
  const auto group = [](const char* x, const char* y) {
    std::vector<std::unique_ptr<Entry>> entries;
    entries.push_back(Make(x));
    entries.push_back(Make(y));
    return entries;
  };
  EXPECT_FALSE(inbox.SubmitGroup(group("a", "b")).ok());
  EXPECT_FALSE(inbox.SubmitGroup(group("a", "a")).ok());
  EXPECT_EQ(inbox.Find("a"), nullptr);
  EXPECT_TRUE(inbox.SubmitGroup(group("a", "c")).ok());
}

TEST(Inbox, after_join_nothing_is_taken_until_it_is_over) {
  Inbox inbox;
  EXPECT_TRUE(inbox.Submit(Make("join", OpKind::kJoin)).ok());
  EXPECT_EQ(inbox.Submit(Make("a")).code(), StatusCode::kInvalidArgument);
  inbox.Complete(inbox.Find("join"), Status::Ok());
  EXPECT_TRUE(inbox.Submit(Make("a")).ok());
}

TEST(Inbox, closing_ends_what_is_outstanding_and_refuses_the_rest_with_the_first_reason) {
  Inbox inbox;
  auto entry = Make("a");
  const HandlePtr handle = entry->handle;
  EXPECT_TRUE(inbox.Submit(std::move(entry)).ok());
  EXPECT_EQ(inbox.Close(Status::ShutDown("first")).size(), 1u);
  EXPECT_EQ(inbox.Close(Status::Internal("second")).size(), 0u);
  EXPECT_EQ(handle->status().message(), "first");
  EXPECT_EQ(inbox.Submit(Make("b")).message(), "first");
}

TEST(Inbox, every_submission_is_fetched_once_or_refused) {
  Inbox inbox;
  constexpr int kThreads = 4, kEach = 2000;
  std::vector<std::thread> threads;
  std::atomic<int> taken{0}, running{kThreads};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        if (inbox.Submit(Make(std::to_string(t) + "." + std::to_string(i))).ok()) ++taken;
      }
      --running;
    });
  }
  int fetched_count = 0;
  std::vector<Entry*> fetched;
  int closed = 0;
  while (running > 0 || !inbox.empty()) {
    fetched.clear();
    inbox.Fetch(&fetched);
    for (Entry* entry : fetched) inbox.Complete(entry, Status::Ok());
    fetched_count += static_cast<int>(fetched.size());
    if (fetched_count > kThreads * kEach / 2 && closed == 0)
      closed = 1 + static_cast<int>(inbox.Close(Status::ShutDown("enough")).size());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fetched_count + std::max(0, closed - 1), taken);
}

}  // namespace
}  // namespace hvdlite::engine
