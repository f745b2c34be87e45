// Results: compares, on the root of a process set, what its members say of results that all of them
// should have alike. DECIDES: knows digests, no tensors.
//
// Every member takes the digest of a sample of each 16th of its decisions and says it with its next
// message, so there are no other messages and nothing waits.
//
// Thread-safety: one thread at a time (the holder of the engine's turn).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hvdlite::engine {

class Results {
 public:
  // `ranks`: the members' global ranks, for messages.
  explicit Results(std::vector<int> ranks) : ranks_(std::move(ranks)) {}

  // Whether the result of a decision is sampled. All members count their decisions alike.
  static constexpr uint64_t kEvery = 16;
  static bool Samples(uint64_t decision) { return decision % kEvery == 0; }

  struct Digest {
    uint64_t decision;
    uint64_t value;
  };
  // On a member that is not the root: keeps what it says with its next message.
  void Say(Digest digest) { unsaid_.push_back(digest); }
  std::vector<Digest> TakeUnsaid() { return std::exchange(unsaid_, {}); }

  // On the root: what a member has said. `name`: of the operation, if the member is the root.
  void Heard(int member, Digest digest, const std::string& name = "");
  // On the root: the first difference, once. Empty: there is none.
  std::string TakeDifference() { return std::exchange(difference_, {}); }
  // How many results all members have spoken of.
  uint64_t compared() const { return compared_; }

 private:
  struct Said {
    std::vector<std::optional<uint64_t>> by_member;
    size_t members = 0;
    std::string name;
  };
  void Compare(const Said& said);

  const std::vector<int> ranks_;
  std::vector<Digest> unsaid_;
  std::map<uint64_t, Said> said_;  // by decision
  uint64_t compared_ = 0;
  bool differed_ = false;
  std::string difference_;
};

}  // namespace hvdlite::engine
