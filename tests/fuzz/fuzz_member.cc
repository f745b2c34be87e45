// Any bytes decode to an error, or to a member that encodes to the same bytes; and no member's
// addresses, however odd, upset the choice among them.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rendezvous/roster.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvdlite::rendezvous;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Member member;
  if (!DecodeMember(bytes, &member).ok()) return 0;
  std::string again;
  if (!EncodeMember(member, &again).ok() || again != bytes) std::abort();
  Member me;
  me.host_id = "me";
  me.addresses = {"10.0.0.5/24", "fe80::1%eth0/64", "127.0.0.1/8"};
  std::string address;
  if (ChooseAddress(me, member, &address).ok() && address.empty()) std::abort();
  if (ChooseAddress(member, me, &address).ok() && address.empty()) std::abort();
  if (ChooseAddress(member, member, &address).ok() && address.empty()) std::abort();
  Roster roster;
  if (MakeRoster({member}, &roster).ok() != (member.rank == 0)) std::abort();
  return 0;
}
