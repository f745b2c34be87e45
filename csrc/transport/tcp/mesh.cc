#include "transport/tcp/mesh.h"

#include <poll.h>

#include <cerrno>
#include <string>
#include <utility>

namespace hvdlite::transport::tcp {

namespace {

// How often timers (pauses between attempts, late handshakes) are checked while nothing happens.
constexpr int kSliceMillis = 20;

struct Missing {
  size_t index;  // in peers
  LinkHello hello;
  std::unique_ptr<LinkDial> dial;  // null: the peer connects to us
};

std::string Endpoints(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const Endpoint& endpoint : endpoints)
    text += (text.empty() ? "" : ", ") + endpoint.ToString();
  return text;
}

Status Late(int me, const std::vector<MeshPeer>& peers, const std::vector<Missing>& missing,
            const LinkListener& listener) {
  std::string text;
  std::vector<int> ranks{peers[missing.front().index].rank, me};
  for (size_t i = 1; i < missing.size(); ++i) ranks.push_back(peers[missing[i].index].rank);
  for (const Missing& one : missing) {
    const MeshPeer& peer = peers[one.index];
    if (!text.empty()) text += '\n';
    const Origin& origin = peer.origin;
    const std::string through = origin.interface + " (" + origin.address + ")";
    if (one.dial != nullptr) {
      text += "rank " + std::to_string(me) + " could not connect " +
              (origin.interface.empty() ? "" : "through " + through + " ") + "to rank " +
              std::to_string(peer.rank) + " in time: " + one.dial->Failures();
    } else if (!origin.interface.empty()) {
      text += "rank " + std::to_string(peer.rank) + " did not connect to rank " +
              std::to_string(me) + " through " + through + " in time";
    } else {
      text += "rank " + std::to_string(peer.rank) + " (" + Endpoints(peer.candidates) +
              ") did not connect to rank " + std::to_string(me) + ", which listens at " +
              listener.endpoint().ToString() + ", in time";
    }
  }
  return Status(StatusCode::kTimeout, text, Cause::kNetwork, std::move(ranks));
}

// Returns true when the link exists.
bool Turn(Missing* one, LinkListener* listener, Fd* fd) {
  if (one->dial == nullptr) {
    *fd = listener->TryClaim(one->hello);
  } else if (one->dial->Turn(MonotonicNow())) {
    *fd = one->dial->Take();
  }
  return fd->valid();
}

}  // namespace

Status ConnectMesh(uint32_t group, const std::vector<MeshPeer>& peers, LinkListener* listener,
                   const Until& until, std::vector<std::unique_ptr<Link>>* links) {
  links->clear();
  const int me = static_cast<int>(listener->me().rank);
  std::vector<std::unique_ptr<Link>> made(peers.size());
  std::vector<Missing> missing;
  for (size_t i = 0; i < peers.size(); ++i) {
    const int rank = peers[i].rank;
    if (rank == me) continue;
    const bool dials = me > rank;
    LinkHello hello{group, static_cast<uint32_t>(dials ? me : rank),
                    static_cast<uint32_t>(dials ? rank : me), peers[i].stream};
    auto dial = dials ? std::make_unique<LinkDial>(hello, peers[i].candidates, listener->me(),
                                                   until.deadline, peers[i].origin)
                      : nullptr;
    missing.push_back({i, hello, std::move(dial)});
  }
  while (true) {
    HVDLITE_RETURN_IF_ERROR(listener->Turn());
    std::erase_if(missing, [&](Missing& one) {
      Fd fd;
      if (!Turn(&one, listener, &fd)) return false;
      const MeshPeer& peer = peers[one.index];
      made[one.index] = std::make_unique<Link>(std::move(fd), peer.rank, me, peer.origin.interface);
      return true;
    });
    if (missing.empty()) break;
    HVDLITE_RETURN_IF_ERROR(until.Look());
    if (until.deadline.Passed()) return Late(me, peers, missing, *listener);
    std::vector<pollfd> fds;
    listener->AddPollFds(&fds);
    for (const Missing& one : missing) {
      if (one.dial != nullptr) one.dial->AddPollFds(&fds);
    }
    if (poll(fds.data(), fds.size(), until.deadline.LeftMillis(kSliceMillis)) < 0 &&
        errno != EINTR) {
      return Status::FromErrno(
          "cannot wait for the links of rank " + std::to_string(me) + " (poll)", errno);
    }
  }
  *links = std::move(made);
  return Status::Ok();
}

}  // namespace hvdlite::transport::tcp
