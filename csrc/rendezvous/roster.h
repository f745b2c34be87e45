// Roster: which ranks are in the job, and on which hosts. A pure function makes it from the
// members' descriptions.
//
// Thread-safety: values. Failure: kInvalidArgument for members that make no job, kIo for bytes that
// are no member.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hvdlite::rendezvous {

// A rank's description of itself for the others.
struct Member {
  int rank = -1;
  int slot = 0;         // of its host, in an elastic job
  std::string host_id;  // equal for ranks that may share memory (host_id.h)
  // where it listens, best first: "10.0.0.5/24", "fe80::1%eth0/64"
  std::vector<std::string> addresses;
  uint16_t port = 0;
  int64_t pid = 0;
  std::string release;  // of hvdlite: "0.1.0"
  // the MPI it has initialised among these ranks, "Open MPI v5.0.11"; empty: none
  std::string mpi;
  std::string mpi_absent;  // why there is no MPI; empty: the job does not use it
  // the settings that must be equal on all ranks: "HVDLITE_SHM_CHUNK_BYTES=262144;..."
  std::string settings;
  // the processors that it may use, as a mask (comm/processors.h); empty: unknown
  std::string processors;
  bool operator==(const Member&) const = default;
};

// Fails for a member that DecodeMember would refuse.
Status EncodeMember(const Member& member, std::string* bytes);
// Safe for any bytes; takes memory only in proportion to their number.
Status DecodeMember(std::string_view bytes, Member* member);

// "rank 2 on node1 runs hvdlite 0.1.0".
std::string WhoRuns(const Member& member);
// OK if all ranks run the same release. Otherwise the error says which rank runs which.
Status CompareReleases(const std::vector<Member>& members);

struct Host {
  std::string id;
  std::vector<int> ranks;  // by slot, then ascending; position = local rank
};

// The place of one rank. "Cross" refers to the ranks with the same local rank on the other hosts,
// in the order of hosts.
struct Place {
  int host = 0;  // index into Roster::hosts
  int local_rank = 0;
  int local_size = 0;
  int cross_rank = 0;
  int cross_size = 0;
};

struct Roster {
  int size = 0;
  std::vector<Member> members;  // by rank
  std::vector<Place> places;    // by rank
  std::vector<Host> hosts;      // in the order of their first ranks
  bool is_homogeneous = true;   // every host has the same number of ranks
};

// `members` may be in any order. They must be the ranks 0 to n-1, each once, of one release and
// with equal settings.
Status MakeRoster(std::vector<Member> members, Roster* roster);

// Chooses the address of `theirs` to which the rank `mine` connects, without its prefix length.
// Best first:
//   a common subnet > any other address > an IPv6 link-local one (with the scope of my interface) >
//   one that is also mine (a bridge such as docker0 has the same address on every host) > loopback.
// Among equals the order of `theirs` decides. On one host (same host_id) loopback comes first
// instead. So 127.0.1.1, which Debian's /etc/hosts gives for a machine's own name, is never used
// between hosts, unless there is only loopback (several "hosts" on one machine, in a test).
Status ChooseAddress(const Member& mine, const Member& theirs, std::string* address);
// Whether `theirs` is in the subnet of `mine`, which has a prefix length: "10.0.0.5/24".
bool InSubnetOf(const std::string& mine, const std::string& theirs);

}  // namespace hvdlite::rendezvous
