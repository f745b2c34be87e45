// Chooses the address of a peer to connect to (declared in roster.h).
#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <optional>

#include "rendezvous/roster.h"

namespace hvdlite::rendezvous {
namespace {

struct Address {
  int family = AF_INET;
  std::array<uint8_t, 16> bytes{};  // IPv4: the first four
  int prefix = 0;                   // bits of the subnet; all bits if the text has no prefix
  std::string scope;                // the interface of an IPv6 link-local address
  std::string number;               // without scope and prefix

  bool loopback() const {
    return family == AF_INET
               ? bytes[0] == 127
               : IN6_IS_ADDR_LOOPBACK(reinterpret_cast<const in6_addr*>(bytes.data()));
  }
  bool link_local() const {
    return family == AF_INET ? bytes[0] == 169 && bytes[1] == 254
                             : bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  }
};

std::optional<Address> Parse(const std::string& text) {
  Address address;
  const size_t slash = text.find('/');
  const std::string scoped = text.substr(0, slash);
  const size_t percent = scoped.find('%');
  address.number = scoped.substr(0, percent);
  if (percent != std::string::npos) address.scope = scoped.substr(percent + 1);
  address.family = address.number.find(':') == std::string::npos ? AF_INET : AF_INET6;
  if (inet_pton(address.family, address.number.c_str(), address.bytes.data()) != 1)
    return std::nullopt;
  const int bits = address.family == AF_INET ? 32 : 128;
  address.prefix = bits;
  if (slash != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, address.prefix);
    if (error != std::errc() || stop != end || address.prefix < 0 || address.prefix > bits)
      return std::nullopt;
  }
  return address;
}

bool Holds(const Address& mine, const Address& theirs) {
  if (mine.family != theirs.family) return false;
  for (int bit = 0; bit < mine.prefix; ++bit) {
    const auto i = static_cast<size_t>(bit / 8);
    if (((mine.bytes[i] ^ theirs.bytes[i]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

// Lower is better. roster.h promises this order.
enum Class {
  kSameHost,
  kCommonSubnet,
  kMyFamily,
  kOtherFamily,
  kLinkLocal,
  kAlsoMine,
  kLoopback,
  kUnusable
};

Class Classify(const std::vector<Address>& mine, const Address& theirs, bool same_host) {
  if (theirs.loopback()) return same_host ? kSameHost : kLoopback;
  bool also_mine = false;
  bool common = false;
  bool family = false;
  bool link_local = false;
  for (const Address& address : mine) {
    if (address.family != theirs.family || address.loopback()) continue;
    also_mine = also_mine || address.bytes == theirs.bytes;
    if (address.link_local()) {
      link_local = true;
      continue;
    }
    family = true;
    common = common || Holds(address, theirs);
  }
  // On one host, an address that is also mine is simply this host's.
  if (also_mine) return same_host ? kCommonSubnet : kAlsoMine;
  // Without an IPv6 link-local address of my own there is no scope for theirs.
  if (theirs.link_local()) return theirs.family == AF_INET || link_local ? kLinkLocal : kUnusable;
  return common ? kCommonSubnet : family ? kMyFamily : kOtherFamily;
}

// Chooses the scope of a link-local address: an interface of the machine that connects. On machines
// that are built alike the interface of the same name is the best guess; otherwise the first with a
// link-local address is used.
std::string MyScope(const std::vector<Address>& mine, const std::string& theirs) {
  std::string first;
  for (const Address& address : mine) {
    if (address.family != AF_INET6 || !address.link_local() || address.scope.empty()) continue;
    if (address.scope == theirs) return theirs;
    if (first.empty()) first = address.scope;
  }
  return first;
}

}  // namespace

bool InSubnetOf(const std::string& mine, const std::string& theirs) {
  const auto one = Parse(mine);
  const auto other = Parse(theirs);
  return one && other && Holds(*one, *other);
}

Status ChooseAddress(const Member& mine, const Member& theirs, std::string* address) {
  std::vector<Address> my_addresses;
  for (const std::string& text : mine.addresses) {
    if (const auto parsed = Parse(text)) my_addresses.push_back(*parsed);
  }
  std::optional<Address> best;
  Class best_class = kUnusable;
  for (const std::string& text : theirs.addresses) {
    const auto parsed = Parse(text);
    if (!parsed) continue;
    const Class its_class = Classify(my_addresses, *parsed, mine.host_id == theirs.host_id);
    if (its_class >= best_class) continue;
    best = parsed;
    best_class = its_class;
  }
  if (!best) {
    std::string all;
    for (const std::string& text : theirs.addresses) all += (all.empty() ? "" : ", ") + text;
    return Status::InvalidArgument("rank " + std::to_string(mine.rank) +
                                   " has no usable address of rank " + std::to_string(theirs.rank) +
                                   " on host '" + theirs.host_id +
                                   "', whose addresses are: " + (all.empty() ? "none" : all));
  }
  *address = best->number;
  if (best->family == AF_INET6 && best->link_local()) {
    const std::string scope = MyScope(my_addresses, best->scope);
    if (!scope.empty()) *address += "%" + scope;
  }
  return Status::Ok();
}

}  // namespace hvdlite::rendezvous
