# SPDX-License-Identifier: Apache-2.0
"""The loops that make the cluster as it should be; they meet only through the API server and the cluster picture."""
