// Converts Members to bytes and back (declared in roster.h; layout in docs/how-it-works/wire.md).
#include <array>

#include "rendezvous/bytes.h"
#include "rendezvous/roster.h"

namespace hvdlite::rendezvous {
namespace {

// Version, rank, pid, port, host id and, from version 4 on, the release have the same place in all
// versions, so that a rank of another release can be named.
constexpr uint8_t kVersion = 7;
constexpr uint8_t kFirstWithRelease = 4;
constexpr size_t kMaxRelease = 64;
// These are generous for names and numbers, and small enough that a forged member costs nothing.
constexpr size_t kMaxHostId = 1024;
constexpr size_t kMaxAddresses = 64;
constexpr size_t kMaxAddress = 128;
constexpr size_t kMaxText = 1024;  // of settings, of the texts about MPI, and of the processors

// The fields that end a member, in their order. `M`: Member or const Member.
template <typename M>
auto TextsOf(M& member) {
  return std::array{&member.mpi, &member.mpi_absent, &member.settings, &member.processors};
}

Status Check(const Member& member) {
  const auto bad = [&](const std::string& why) {
    return Status::InvalidArgument("the description of rank " + std::to_string(member.rank) +
                                   " is invalid: " + why);
  };
  if (member.rank < 0) return bad("the rank is negative");
  if (member.slot < 0) return bad("the slot is negative");
  if (member.host_id.empty() || member.host_id.size() > kMaxHostId)
    return bad("the host id has to have 1 to 1024 bytes");
  if (member.release.size() > kMaxRelease) return bad("the release has more than 64 bytes");
  if (member.addresses.size() > kMaxAddresses) return bad("it has more than 64 addresses");
  for (const std::string* text : TextsOf(member)) {
    if (text->size() > kMaxText) return bad("a text has more than 1024 bytes");
  }
  for (const std::string& address : member.addresses) {
    if (address.empty() || address.size() > kMaxAddress)
      return bad("an address has to have 1 to 128 bytes");
  }
  return Status::Ok();
}

// Reads the fields that all versions have in common.
bool TakeHead(ByteReader* reader, uint8_t version, Member* member) {
  int32_t rank = -1;
  uint16_t host_bytes = 0;
  uint8_t release_bytes = 0;
  if (!reader->TakeInteger(&rank) || !reader->TakeInteger(&member->pid) ||
      !reader->TakeInteger(&member->port) || !reader->TakeInteger(&host_bytes) ||
      !reader->TakeBytes(host_bytes, &member->host_id)) {
    return false;
  }
  member->rank = rank;
  if (version < kFirstWithRelease) return true;
  return reader->TakeInteger(&release_bytes) && reader->TakeBytes(release_bytes, &member->release);
}

}  // namespace

Status EncodeMember(const Member& member, std::string* bytes) {
  HVDLITE_RETURN_IF_ERROR(Check(member));
  bytes->clear();
  AppendInteger(bytes, kVersion);
  AppendInteger(bytes, static_cast<int32_t>(member.rank));
  AppendInteger(bytes, member.pid);
  AppendInteger(bytes, member.port);
  AppendInteger(bytes, static_cast<uint16_t>(member.host_id.size()));
  *bytes += member.host_id;
  AppendInteger(bytes, static_cast<uint8_t>(member.release.size()));
  *bytes += member.release;
  AppendInteger(bytes, static_cast<int32_t>(member.slot));
  AppendInteger(bytes, static_cast<uint8_t>(member.addresses.size()));
  for (const std::string& address : member.addresses) {
    AppendInteger(bytes, static_cast<uint8_t>(address.size()));
    *bytes += address;
  }
  for (const std::string* text : TextsOf(member)) {
    AppendInteger(bytes, static_cast<uint16_t>(text->size()));
    *bytes += *text;
  }
  return Status::Ok();
}

Status DecodeMember(std::string_view bytes, Member* member) {
  ByteReader reader(bytes);
  Member read;
  uint8_t version = 0;
  uint8_t count = 0;
  const auto cut = [&] {
    return Status::Io("the description of a rank ends too early, after " +
                      std::to_string(bytes.size()) + " bytes");
  };
  if (!reader.TakeInteger(&version)) return cut();
  const bool has_head = TakeHead(&reader, version, &read);
  if (version != kVersion) {
    return Status::InvalidArgument("the ranks run different releases of hvdlite: " +
                                   (has_head ? WhoRuns(read) : std::string("a rank")) +
                                   ", whose description has version " + std::to_string(version) +
                                   ", and this rank knows version " + std::to_string(kVersion) +
                                   ". Install the same release on all hosts");
  }
  int32_t slot = 0;
  if (!has_head || !reader.TakeInteger(&slot) || !reader.TakeInteger(&count)) return cut();
  read.slot = slot;
  for (int i = 0; i < count; ++i) {
    uint8_t address_bytes = 0;
    std::string address;
    if (!reader.TakeInteger(&address_bytes) || !reader.TakeBytes(address_bytes, &address))
      return cut();
    read.addresses.push_back(std::move(address));
  }
  for (std::string* text : TextsOf(read)) {
    uint16_t text_bytes = 0;
    if (!reader.TakeInteger(&text_bytes) || !reader.TakeBytes(text_bytes, text)) return cut();
  }
  if (!reader.rest().empty())
    return Status::Io("the description of a rank has bytes after its end");
  const Status checked = Check(read);
  if (!checked.ok()) return Status::Io(checked.message());
  *member = std::move(read);
  return Status::Ok();
}

}  // namespace hvdlite::rendezvous
