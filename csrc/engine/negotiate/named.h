// Operations with the trait kAmongNamed: the ranks that the request names ask for them, and all
// other ranks are outside. DECIDES; pure.
//
// The operation's name ends with its ranks. So sets of disjoint ranks may be added under one name,
// and each is an operation of its own. Ranks that share a member must agree about the ranks of a
// name; if they do not, they contradict each other.
#pragma once

#include <string>
#include <vector>

#include "engine/message.h"
#include "engine/negotiate/tally.h"

namespace hvdlite::engine {

// The name of an operation among `ranks`, of the name that its caller gave.
std::string NameAmong(const std::string& given, const std::vector<int64_t>& ranks);
// The name that its caller gave.
std::string GivenName(const Request& request);

// Whether the request names ascending ranks of the job, and its name ends with them.
bool NamesRanks(const Request& request, int size);
bool IsNamed(const Request& request, int rank);

// Whether two different requests mean one operation, so that their ranks contradict each other.
bool Contradict(const Request& one, const Request& other);
// The error of both. Only the world has such operations, and there a member's number is its rank.
Status Contradiction(const Tally& one, const Tally& other);

// What the root of the world knows of the sets that were added so.
class NamedSets {
 public:
  // OK, or the error of this member's request. The set exists already, or the member comes late to
  // requests that have failed because they contradicted each other: it gets their error, once.
  Status Judge(int member, const Request& request);
  // These have failed with `why`. Their members that have not asked yet come late.
  void HaveFailed(const Tally& one, const Tally& other, const Status& why);
  // This request is carried out: from now on its set exists, or is gone.
  void Perform(const Request& request);

 private:
  struct Set {
    std::string given;
    std::vector<int64_t> ranks;
  };
  struct Failed {
    OpKind kind;
    std::string given;
    Status why;
    std::vector<int> late;
  };
  Status Late(int member, const Request& request);
  Status Exists(const Request& request) const;

  std::vector<Set> sets_;
  std::vector<Failed> failed_;
};

}  // namespace hvdlite::engine
