// A rank that has come and then cannot say where other hosts reach it, as behind a network that
// loses what it would send.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/memory_store.h"
#include "testing/in_threads.h"
#include "testing/ranks.h"
#include "testing/says.h"

namespace hvdlite::testing {
namespace {

// Nothing that rank 1 says about its door arrives.
class LossyStore final : public rendezvous::Store {
 public:
  Status Set(const std::string& key, const std::string& value) override {
    return key == "job/door/1" ? Status::Ok() : inner_.Set(key, value);
  }
  Status Get(const std::string& key, Deadline deadline, std::string* value) override {
    return inner_.Get(key, deadline, value);
  }
  Status Collect(const std::string& key, int n, Deadline deadline,
                 std::vector<std::string>* values) override {
    return inner_.Collect(key, n, deadline, values);
  }
  Status Add(const std::string& key, int64_t amount, int64_t* sum) override {
    return inner_.Add(key, amount, sum);
  }
  Status Delete(const std::string& key) override { return inner_.Delete(key); }

 private:
  rendezvous::MemoryStore inner_;
};

TEST(EngineStart, a_rank_that_does_not_say_where_it_is_reached_is_named_and_not_the_stores_keys) {
  LossyStore store;
  RanksOptions options{.size = 2, .hosts = 2};
  options.config.start_timeout_seconds = 2;  // longer than both take to come
  InThreads(2, [&](int r) {
    std::unique_ptr<Engine> engine;
    const Status status = StartEngine(options, r, "job/", &store, &engine);
    EXPECT_EQ(status.code(), StatusCode::kTimeout);
    EXPECT_EQ(status.message().find("rank 1 called hvd.init(), but did not say within 2 s where"),
              0u)
        << status.message();
    EXPECT_FALSE(Says(status, "job/"));
  });
}

}  // namespace
}  // namespace hvdlite::testing
