// Tells which ranks are on one host, that is, may share memory and talk over loopback.
#pragma once

#include <string>

namespace hvdlite::rendezvous {

// Returns `configured` unless it is empty. Otherwise host name, boot id and network namespace:
// "node1#<boot id>#<inode>". Two containers of one machine count as two hosts if they cannot reach
// each other over loopback or an abstract Unix socket. Two machines that are both called
// "localhost" count as two hosts, too.
std::string HostId(const std::string& configured);

// The part before the first '#', for messages.
std::string HostName(const std::string& host_id);

}  // namespace hvdlite::rendezvous
