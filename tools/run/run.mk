# SPDX-License-Identifier: BSD-3-Clause
# oriel-run: the launcher for one host.
