// Which ranks are on one host, that is, may share memory and talk over loopback.
#pragma once

#include <string>

namespace hvdlite::rendezvous {

// `configured` unless it is empty. Otherwise host name, boot id and network namespace, "node1#<boot
// id>#<inode>": two containers of one machine that cannot reach each other over loopback or an
// abstract Unix socket count as two hosts, two machines that are both called "localhost" as well.
std::string HostId(const std::string& configured);

// For people: the part before the first '#'.
std::string HostName(const std::string& host_id);

}  // namespace hvdlite::rendezvous
