# SPDX-License-Identifier: BSD-3-Clause
# oriel-info: what the library is, sees and has chosen.
