// Grid: the members of a process set as a table, with a row for each host and a column for each
// place on a host. An allreduce can go along a row, then along the columns, and back along the row.
// DECIDES: pure, and alike on all members except for their own positions.
#pragma once

#include <string>

#include "comm/topology.h"

namespace hvdlite::comm::nccl {

struct Grid {
  bool used = false;
  std::string why;  // as a sentence; empty if no grid was asked for
  int hosts = 1;
  int places = 1;  // on each host
  int host = 0;    // this member's row
  int place = 0;
  int first_of_host = 0;   // the first member of this row
  int first_of_place = 0;  // the first member of this column
};

// The grid is not used if it is not wanted, if there is only one row or one column, or if rows
// differ in length.
Grid MakeGrid(const Topology& topology, int me, bool wanted);

}  // namespace hvdlite::comm::nccl
