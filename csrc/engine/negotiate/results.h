// Results: compares, on the root of a process set, what its members say of results that all of them
// should have alike. DECIDES: knows digests, no tensors.
//
// Every member takes the digest of a sample of each 64th of its decisions and says it with its next
// message, so there are no other messages and nothing waits.
//
// Thread-safety: one thread at a time (the holder of the engine's turn).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hvdlite::engine {

class Results {
 public:
  // `ranks`: the members' global ranks, for messages. `me`: this member.
  Results(std::vector<int> ranks, int me, bool is_root)
      : ranks_(std::move(ranks)), me_(me), is_root_(is_root) {}

  // Whether the result of a decision is sampled. All members count their decisions alike.
  static constexpr uint64_t kEvery = 64;
  static bool Samples(uint64_t decision) { return decision % kEvery == 0; }

  struct Digest {
    uint64_t decision;
    uint64_t value;
  };
  // What this member says. `name`: of the operation.
  void Say(Digest digest, const std::string& name);
  // What this member has not yet told the root, for its next message.
  std::vector<Digest> TakeUnsaid() { return std::exchange(unsaid_, {}); }
  // On the root: what another member has said.
  void Heard(int member, Digest digest) { Compare(member, digest, ""); }
  // On the root: the first difference, once. Empty: there is none.
  std::string TakeDifference() { return std::exchange(difference_, {}); }
  // How many results all members have spoken of.
  uint64_t compared() const { return compared_; }

 private:
  struct Said {
    std::map<int, uint64_t> by_member;
    std::string name;
  };
  void Compare(int member, Digest digest, const std::string& name);
  void CompareAll(const Said& said);

  const std::vector<int> ranks_;
  const int me_;
  const bool is_root_;
  std::vector<Digest> unsaid_;
  std::map<uint64_t, Said> said_;  // by decision
  uint64_t compared_ = 0;
  bool differed_ = false;
  std::string difference_;
};

}  // namespace hvdlite::engine
