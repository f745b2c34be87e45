// Agreement: the negotiation by which all members of a process set get the same decisions in the
// same order.
//
//          member 0 (root): ledger, decides
//         /        |        \         requests flow up
//   members of   host leader  host leader
//   this host     /    \          \         decisions flow down (comm/topology.h)
//               members ...      members
//
// No member waits for another: each turn moves what has arrived. Edges inside a host are
// shared-memory pipes, between hosts TCP links. A host's leader passes on the records of its
// members, and sends "all of us" once instead of one record each.
//
// Thread-safety: one thread at a time (the holder of the engine's turn). Failure: kPeerLost when an
// edge breaks; kInternal when a neighbour sends an invalid message.
#pragma once

#include <poll.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "engine/fuse/gather.h"
#include "engine/fuse/plan.h"
#include "engine/message.h"
#include "engine/negotiate/ledger.h"
#include "engine/negotiate/offers.h"
#include "engine/negotiate/results.h"
#include "engine/observe/whereabouts.h"
#include "transport/frames.h"

namespace hvdlite::engine {

// The place of one member in the tree. Transports are borrowed.
struct TreePlace {
  int me = 0;
  transport::Transport* parent = nullptr;  // null at the root
  struct Child {
    transport::Transport* transport;
    std::vector<int> members;  // all members below it, itself included
  };
  std::vector<Child> children;
};

struct AgreementOptions {
  size_t cache_capacity = 65536;
  FuseOptions fuse;
  // Root only: whether all that is ready is kept for more. Null: never.
  std::function<bool(const Readiness& readiness, Nanos now)> keeps;
  // Null: the members do not meet. Borrowed.
  Meeting* meeting = nullptr;
  // How many steps the members have made together. For messages; null: unknown.
  std::function<uint64_t()> steps;
};

// A decision that all members carry out next, in order.
struct Decision {
  Down kind = Down::kExecute;
  std::vector<Response> batch;     // kExecute
  std::vector<std::string> names;  // kError; kVerdict: its text
  Status status;                   // kError, kShutdown, kAbort
  uint64_t slot = kNoSlot;         // kEvict; kTune: the setting, packed
};

class Agreement {
 public:
  // `ranks`: the members' global ranks, for messages.
  Agreement(const TreePlace& place, std::vector<int> ranks, const AgreementOptions& options);

  bool is_root() const { return parent_ == nullptr; }

  // Announces this member's request: in full, or as the slot that stands for the same request.
  // `slot` is the slot that the name of a full request stood for until now, if any.
  Status Announce(const Request& request, uint64_t slot, Nanos now);
  Status AnnounceSlot(uint64_t slot, Nanos now);
  void AnnounceEvicted(uint64_t slot);
  // Announces that this member leaves. Everything announced before still happens.
  void AnnounceShutdown(Nanos now);
  // For what this member says in a meeting, after all that it has said before. Only where members
  // meet.
  Offers& ToOffer() {
    SendUp();
    return *offers_;
  }
  // Tells the neighbours in the tree that the job has failed. They pass it on. Best effort. First
  // appends the decisions that have arrived from the parent, and passes them on.
  void SpreadAbort(const Status& status, Nanos now, std::vector<Decision>* decisions);
  // Root only: a decision that is not about an operation. All members get it at the same place
  // among the others. kWhere: asks all members where their programs are; their answers arrive
  // during the next exchanges. kVerdict: tells them `text`. kTune: they change to the setting
  // `number`.
  void Tell(Down kind, uint64_t number, std::vector<Decision>* decisions,
            const std::string& text = "");
  // Matters at the root only.
  void FuseUpTo(int64_t threshold) { options_.fuse.threshold = threshold; }
  // Where the program of a member is: of this one, or of one below it.
  void AnswerWhere(int member, const Whereabouts& here);
  // Root only: the answers since they were asked, by global rank.
  const std::map<int, Whereabouts>& answers() const { return answers_; }
  // What members say of results; only the root's compares.
  Results& results() { return results_; }
  // Makes the arrival of each member's request visible to the timeline. A relay then passes on at
  // once what it would bundle, and the root keeps the arrivals for TakeArrivals. May change at any
  // time.
  void WatchArrivals(bool on);
  std::vector<Ledger::Arrival> TakeArrivals() { return ledger_.TakeArrivals(); }
  // Sends a sign of life to the neighbours.
  void SendAlive();

  // Moves messages and, at the root, decides. Appends the decisions to `decisions`.
  Status Exchange(Nanos now, std::vector<Decision>* decisions, bool* moved);
  // Sends queued messages as far as possible. Returns true when none is left.
  bool Flush();
  // Call after the final message. Ends sending to the neighbours and drops what they still send.
  // Returns true when all of them have ended as well. Closing the sockets then discards no message
  // that a neighbour has not read yet.
  bool TakeLeave();

  // For the heartbeat: when the last whole frame arrived from each neighbour in the tree on another
  // host.
  struct Heard {
    const transport::Transport* from;
    Nanos at;
  };
  std::vector<Heard> LastHeard() const;
  void AddPollFds(std::vector<pollfd>* fds) const;
  // Only the root's ledger has entries.
  const Ledger& ledger() const { return ledger_; }

 private:
  struct Edge {
    std::unique_ptr<transport::FrameChannel> channel;
    std::vector<int> members;
    Nanos heard = 0;
  };
  // A slot that some members below this relay have announced. The relay passes it on when all have
  // announced it. It does so earlier if one of them will not (it asks in full, or has forgotten the
  // slot), or if the root has to know which members are missing.
  struct Partial {
    std::vector<int> members;  // announced
    size_t declined = 0;       // members that asked in full instead
    size_t forgotten = 0;      // members for which the slot means nothing any more
    Nanos since = 0;
    // the announcements were passed on one by one; later ones will be, too
    bool spelled_out = false;
  };

  Status Receive(Edge* edge, Nanos now, std::vector<Decision>* decisions, bool* moved);
  Status HandleUp(const Edge& edge, std::string_view frame, Nanos now,
                  std::vector<Decision>* decisions);
  bool MakesSense(const Response& response) const;
  Status HandleDown(std::string_view frame, Nanos now, std::vector<Decision>* decisions);
  // relay.cc
  Status CountSlot(int member, uint64_t slot, Nanos now);
  void PassOnUncached(int member, uint64_t slot, Nanos now);
  void PassOnEvicted(int member, uint64_t slot);
  void PassOnSlot(Up what, int member, uint64_t slot);
  void PassOnShutdown(int member);
  void NoteJoin(const Request& request);
  void SpellOut(uint64_t slot, Partial* partial);
  void EndRoundIfComplete(uint64_t slot, Partial* partial);
  Writer& UpFor(int member);
  void SendUp();
  // decide.cc
  void Decide(Nanos now, std::vector<Decision>* decisions);
  void DecideReady(const std::vector<Tally*>& ready, Writer* out);
  // Ends the tally's round. Returns the response for its operation.
  Response Settle(Tally* tally);
  void Broadcast(std::string_view frame);

  const int me_;
  const std::vector<int> ranks_;
  AgreementOptions options_;
  std::unique_ptr<Edge> parent_;
  std::vector<Edge> children_;
  size_t below_ = 1;  // the number of members it speaks for, itself included
  Ledger ledger_;
  Results results_;
  std::unique_ptr<Offers> offers_;  // null: the members do not meet
  Writer up_;                       // the frame to the parent, being written
  int up_member_ = -1;              // the member that the frame speaks for
  std::unordered_map<uint64_t, Partial> partials_;
  bool watching_ = false;
  // Some member below has joined and announces nothing, so no subtree becomes complete.
  bool joined_below_ = false;
  std::map<int, Whereabouts> answers_;
  // kept until the earlier messages of the children are read, because the order of joins matters
  std::optional<Request> joining_;
  std::vector<int> leaving_;
  Nanos leaving_since_ = 0;
  Nanos next_look_ = 0;  // on the root: the next search for groups that can never become ready
  bool shutdown_decided_ = false;
};

}  // namespace hvdlite::engine
